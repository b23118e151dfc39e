select count(*), max(visits) from (
  select c_email_address, i_product_name, ca_street_name || ' ' || ca_city place, count(*) visits
  from store_sales join customer on ss_customer_sk = c_customer_sk
  join item on ss_item_sk = i_item_sk join customer_address on ss_addr_sk = ca_address_sk
  group by 1, 2, 3) bought
