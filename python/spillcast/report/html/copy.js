for (const button of document.querySelectorAll("button[data-of]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.of);
    const status = document.getElementById("status");
    let copied = true;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      copied = document.execCommand("copy");
    }
    status.textContent = copied ? "Copied" : "Not copied: it is selected, press Ctrl+C";
    button.textContent = copied ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
