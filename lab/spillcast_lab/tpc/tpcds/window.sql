select max(running), max(place) from (
  select sum(cs_net_paid) over (partition by cs_bill_customer_sk order by cs_sold_date_sk, cs_order_number, cs_item_sk) running,
         row_number() over (partition by cs_item_sk order by cs_net_profit desc, cs_order_number) place
  from catalog_sales) ranked
