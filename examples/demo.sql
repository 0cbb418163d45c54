-- What `make demo` runs: one million generated taxi rides, four views over them, one of them a view on a view.

CREATE SOURCE rides (id BIGINT, driver INT, city STRING, fare DECIMAL(8, 2), started TIMESTAMP)
FROM DATAGEN (
  rows = 1000000,
  max_rows_per_step = 50000,
  fields.id.kind = 'sequence',
  fields.driver.kind = 'zipf',
  fields.driver.max = 5000,
  fields.city.kind = 'choice',
  fields.city.choices = 'Lisbon,Lima,Lagos,London,Lyon,Leipzig,Lahore,Luanda',
  fields.city.weights = '5,8,13,11,4,2,9,6',
  fields.fare.min = '3.00',
  fields.fare.max = '80.00',
  fields.started.step = '20ms',
  fields.started.disorder = '30s'
);

CREATE MATERIALIZED VIEW cities AS
  SELECT city, COUNT(*) AS rides, SUM(fare) AS fares, AVG(fare) AS average, MAX(fare) AS dearest
  FROM rides
  GROUP BY city;

CREATE MATERIALIZED VIEW hours AS
  SELECT date_trunc('HOUR', started) AS hour, COUNT(*) AS rides, COUNT(*) FILTER (WHERE fare > 60) AS dear
  FROM rides
  GROUP BY date_trunc('HOUR', started);

CREATE MATERIALIZED VIEW drivers AS
  SELECT driver, COUNT(*) AS rides, SUM(fare) AS earned FROM rides GROUP BY driver;

CREATE MATERIALIZED VIEW best_drivers AS
  SELECT driver, rides, earned FROM drivers ORDER BY earned DESC LIMIT 5;
