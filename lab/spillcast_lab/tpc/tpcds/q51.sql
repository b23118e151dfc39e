with web as (
  select ws_item_sk item_sk, d_date,
    sum(sum(ws_sales_price)) over (partition by ws_item_sk order by d_date
      rows between unbounded preceding and current row) sales
  from web_sales, date_dim
  where ws_sold_date_sk = d_date_sk
    and d_month_seq between 1200 and 1211
    and ws_item_sk is not null
  group by ws_item_sk, d_date
), stores as (
  select ss_item_sk item_sk, d_date,
    sum(sum(ss_sales_price)) over (partition by ss_item_sk order by d_date
      rows between unbounded preceding and current row) sales
  from store_sales, date_dim
  where ss_sold_date_sk = d_date_sk
    and d_month_seq between 1200 and 1211
    and ss_item_sk is not null
  group by ss_item_sk, d_date
)
select * from (
  select item_sk, d_date, web_sales, store_sales,
    max(web_sales) over (partition by item_sk order by d_date
      rows between unbounded preceding and current row) web_cumulative,
    max(store_sales) over (partition by item_sk order by d_date
      rows between unbounded preceding and current row) store_cumulative
  from (
    select coalesce(web.item_sk, stores.item_sk) item_sk, coalesce(web.d_date, stores.d_date) d_date,
      web.sales web_sales, stores.sales store_sales
    from web full outer join stores
      on web.item_sk = stores.item_sk and web.d_date = stores.d_date) joined) cumulative
where web_cumulative > store_cumulative
order by item_sk nulls first, d_date nulls first
limit 100
