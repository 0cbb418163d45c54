-- A shop: generated orders, what each product earns, and the best three of them.
--
--   tidegate run examples/shop.sql
--   tidegate query shop "SELECT * FROM revenue ORDER BY total DESC"
--   tidegate tail shop revenue

CREATE SOURCE orders (id BIGINT, product STRING, quantity INT, price DECIMAL(10, 2), ts TIMESTAMP)
FROM DATAGEN (
  rows_per_second = 200,
  seed = 42,
  fields.id.kind = 'sequence',
  fields.product.kind = 'choice',
  fields.product.choices = 'pen,ink,paper,lamp,desk,chair,clip,cup',
  fields.product.weights = '8,5,5,2,1,1,9,3',
  fields.quantity.min = 1,
  fields.quantity.max = 5,
  fields.price.min = '0.50',
  fields.price.max = '90.00'
);

CREATE MATERIALIZED VIEW revenue AS
  SELECT product, COUNT(*) AS orders, SUM(quantity * price) AS total
  FROM orders
  GROUP BY product;

CREATE MATERIALIZED VIEW best AS
  SELECT product, total FROM revenue ORDER BY total DESC LIMIT 3;
