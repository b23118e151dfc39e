select count(*), sum(later.ss_net_paid - earlier.ss_net_paid) from store_sales earlier
join store_sales later on later.ss_customer_sk = earlier.ss_customer_sk and later.ss_item_sk = earlier.ss_item_sk
and later.ss_ticket_number > earlier.ss_ticket_number
