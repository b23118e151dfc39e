select * from (
  select i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id, sales,
    rank() over (partition by i_category order by sales desc) place
  from (
    select i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id,
      sum(coalesce(ss_sales_price * ss_quantity, 0)) sales
    from store_sales, date_dim, store, item
    where ss_sold_date_sk = d_date_sk
      and ss_item_sk = i_item_sk
      and ss_store_sk = s_store_sk
      and d_month_seq between 1200 and 1211
    group by rollup (i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id)
  ) grouped) ranked
where place <= 100
order by i_category nulls first, i_class nulls first, i_brand nulls first,
  i_product_name nulls first, d_year nulls first, d_qoy nulls first, d_moy nulls first,
  s_store_id nulls first, sales nulls first, place nulls first
limit 100
