CREATE TABLE IF NOT EXISTS locks_holders (
    k       VARBINARY(1024) NOT NULL COMMENT 'namespace:key',
    owner   BINARY(16) NOT NULL,
    token   BIGINT UNSIGNED NOT NULL,
    ttl     BIGINT UNSIGNED NOT NULL COMMENT 'microseconds',
    expires DATETIME(6) NOT NULL COMMENT 'UTC',
    holder  VARBINARY(255) NULL COMMENT 'as in locks',
    slot    INT UNSIGNED NULL COMMENT 'of a permit',
    PRIMARY KEY (k, owner)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
