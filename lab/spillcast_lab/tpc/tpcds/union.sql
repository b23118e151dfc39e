select count(*), sum(paid) from (
  select ss_customer_sk customer, ss_item_sk item, ss_net_paid paid from store_sales
  union select cs_bill_customer_sk, cs_item_sk, cs_net_paid from catalog_sales
  union select ws_bill_customer_sk, ws_item_sk, ws_net_paid from web_sales) sold
