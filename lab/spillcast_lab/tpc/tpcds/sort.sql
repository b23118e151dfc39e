select ss_ticket_number, ss_item_sk, ss_customer_sk, ss_sold_date_sk, ss_sold_time_sk, ss_quantity, ss_net_paid, ss_net_profit
from store_sales order by ss_net_profit, ss_ticket_number, ss_item_sk
offset 1000000 limit 5
