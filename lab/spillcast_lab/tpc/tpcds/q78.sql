with web as (
  select d_year sold_year, ws_item_sk item_sk, ws_bill_customer_sk customer_sk,
    sum(ws_quantity) quantity, sum(ws_wholesale_cost) cost, sum(ws_sales_price) price
  from web_sales
  left join web_returns on wr_order_number = ws_order_number and wr_item_sk = ws_item_sk
  join date_dim on ws_sold_date_sk = d_date_sk
  where wr_order_number is null
  group by d_year, ws_item_sk, ws_bill_customer_sk
), catalog as (
  select d_year sold_year, cs_item_sk item_sk, cs_bill_customer_sk customer_sk,
    sum(cs_quantity) quantity, sum(cs_wholesale_cost) cost, sum(cs_sales_price) price
  from catalog_sales
  left join catalog_returns on cr_order_number = cs_order_number and cr_item_sk = cs_item_sk
  join date_dim on cs_sold_date_sk = d_date_sk
  where cr_order_number is null
  group by d_year, cs_item_sk, cs_bill_customer_sk
), stores as (
  select d_year sold_year, ss_item_sk item_sk, ss_customer_sk customer_sk,
    sum(ss_quantity) quantity, sum(ss_wholesale_cost) cost, sum(ss_sales_price) price
  from store_sales
  left join store_returns on sr_ticket_number = ss_ticket_number and sr_item_sk = ss_item_sk
  join date_dim on ss_sold_date_sk = d_date_sk
  where sr_ticket_number is null
  group by d_year, ss_item_sk, ss_customer_sk
)
select sold_year, item_sk, customer_sk,
  round(stores.quantity * 1.00 / (coalesce(web.quantity, 0) + coalesce(catalog.quantity, 0)), 2) ratio,
  stores.quantity store_quantity, stores.cost store_cost, stores.price store_price,
  coalesce(web.quantity, 0) + coalesce(catalog.quantity, 0) other_quantity,
  coalesce(web.cost, 0) + coalesce(catalog.cost, 0) other_cost,
  coalesce(web.price, 0) + coalesce(catalog.price, 0) other_price
from stores
left join web using (sold_year, item_sk, customer_sk)
left join catalog using (sold_year, item_sk, customer_sk)
where (coalesce(web.quantity, 0) > 0 or coalesce(catalog.quantity, 0) > 0)
  and sold_year = 2000
order by sold_year, item_sk, customer_sk, store_quantity desc, store_cost desc, store_price desc,
  other_quantity, other_cost, other_price, ratio
limit 100
