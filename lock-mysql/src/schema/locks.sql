CREATE TABLE IF NOT EXISTS locks (
    k       VARBINARY(1024) NOT NULL COMMENT 'namespace:key',
    mode    CHAR(1) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'x'
            COMMENT 'x: one holder, the owner; s or p: those in the table of holders',
    owner   BINARY(16) NULL,
    token   BIGINT UNSIGNED NOT NULL COMMENT 'of the last grant',
    ttl     BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'microseconds',
    expires DATETIME(6) NOT NULL COMMENT 'UTC; in the past, or without an owner: free, or held by a row lock',
    holder  VARBINARY(255) NULL COMMENT 'claim id, host, pid, time and label of the owner',
    PRIMARY KEY (k)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
