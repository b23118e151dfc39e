"""A connection pooler in front of PostgreSQL: clients get process ids that are not the servers'.

Argument: the server's port. Prints its own port; serves until its input ends.
"""

import socket
import struct
import sys
import threading


def to_server(client, server):
    while data := client.recv(65536):
        server.sendall(data)
    server.shutdown(socket.SHUT_WR)


def to_client(server, client):
    stream = server.makefile("rb")
    while head := stream.read(5):
        kind, length = head[:1], struct.unpack(">I", head[1:])[0]
        body = stream.read(length - 4)
        if kind == b"K":
            body = struct.pack(">I", 2_000_000_001) + body[4:]
        client.sendall(head + body)
    client.close()


def serve(listener, port):
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=to_server, args=(client, server), daemon=True).start()
        threading.Thread(target=to_client, args=(server, client), daemon=True).start()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listening, int(sys.argv[1])), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
