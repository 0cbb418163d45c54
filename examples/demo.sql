-- What `make demo` runs: generated taxi rides, and the same five-minute windows of them three times over:
-- while they fill, as they change, and once they are closed. Late rides go to a table.

CREATE SOURCE rides (
  id BIGINT,
  driver INT,
  city STRING,
  fare DECIMAL(8, 2),
  started TIMESTAMP,
  WATERMARK FOR started AS started - INTERVAL '20' SECOND      -- rides arrive up to 30 s out of order: a few are late
)
FROM DATAGEN (
  rows = 480000,
  max_rows_per_step = 50000,
  fields.id.kind = 'sequence',
  fields.driver.kind = 'zipf',
  fields.driver.max = 5000,
  fields.city.kind = 'choice',
  fields.city.choices = 'Lisbon,Lima,Lagos,London',
  fields.city.weights = '5,8,13,11',
  fields.fare.min = '3.00',
  fields.fare.max = '80.00',
  fields.started.start = '2024-05-01 12:00:25',
  fields.started.step = '2ms',
  fields.started.disorder = '30s'
);

CREATE TABLE missed (id BIGINT, driver INT, city STRING, fare DECIMAL(8, 2), started TIMESTAMP);

-- Early: the current result, every two seconds of the wall clock.
CREATE MATERIALIZED VIEW early AS
  SELECT window_start AS five_minutes, COUNT(*) AS rides, SUM(fare) AS fares
  FROM TUMBLE(rides, started, INTERVAL '5' MINUTE)
  GROUP BY window_start
  EMIT EVERY INTERVAL '2' SECOND;

-- Live: the new result in every step that changed it.
CREATE MATERIALIZED VIEW live AS
  SELECT window_start AS five_minutes, COUNT(*) AS rides, SUM(fare) AS fares
  FROM TUMBLE(rides, started, INTERVAL '5' MINUTE)
  GROUP BY window_start
  EMIT ON UPDATE;

-- Final: one answer per window, once no more rides of it can come.
CREATE MATERIALIZED VIEW closed AS
  SELECT window_start AS five_minutes, COUNT(*) AS rides, SUM(fare) AS fares
  FROM TUMBLE(rides, started, INTERVAL '5' MINUTE)
  GROUP BY window_start
  LATE DATA TO missed
  EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW too_late AS
  SELECT city, COUNT(*) AS rides, SUM(fare) AS fares FROM missed GROUP BY city;

CREATE MATERIALIZED VIEW best_drivers AS
  SELECT driver, COUNT(*) AS rides, SUM(fare) AS earned FROM rides GROUP BY driver ORDER BY earned DESC LIMIT 5;
