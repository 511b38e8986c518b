CREATE TABLE orders (
    id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    item text NOT NULL UNIQUE
);
GRANT SELECT, INSERT ON orders TO my_api;
