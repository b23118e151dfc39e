select count(*), sum(spent), max(visits) from (
  select ss_customer_sk, ss_item_sk, ss_store_sk, ss_sold_date_sk, ss_promo_sk, ss_hdemo_sk,
         sum(ss_net_paid) spent, avg(ss_list_price) price, max(ss_quantity) most, count(*) visits
  from store_sales group by 1, 2, 3, 4, 5, 6) baskets
