/// What values of a setting do to pushq, and which value it should have.
struct SettingRule {
    let name: String
    /// A regular expression that the harmful values match, in each way to spell them.
    let harmful: String
    let severity: HealthFinding.Severity
    let consequence: String
    let value: String

    init(
        _ name: String, _ harmful: String, _ severity: HealthFinding.Severity, _ consequence: String, _ value: String
    ) {
        self.name = name
        self.harmful = harmful
        self.severity = severity
        self.consequence = consequence
        self.value = value
    }

    private static let off = "^(off|false|no|0)$"

    /// The rules for `default_transaction_read_only`, which a check of its own looks for.
    static let readOnly = [
        SettingRule(
            "default_transaction_read_only", "^(on|true|yes|1)$", .error,
            "its sessions may not write, so that calls fail and workers send nothing", "off")
    ]

    static let all = [
        SettingRule("fsync", off, .error, "a crash of the machine destroys the database", "on"),
        SettingRule("full_page_writes", off, .error, "a crash of the machine destroys the database", "on"),
        SettingRule("autovacuum", off, .error, "dead rows stay, and every claim gets slower by the hour", "on"),
        SettingRule("track_counts", off, .error, "autovacuum does not see what there is to do", "on"),
        SettingRule(
            "synchronous_commit", off, .warning,
            "a crash loses the last commits, so that pushes are sent again, even those that may be sent at most once",
            "on"),
        SettingRule(
            "synchronous_commit", "^local$", .warning,
            "a failover loses the last commits, so that pushes are sent again, even those that may be sent at most once",
            "on"),
        SettingRule(
            "default_transaction_isolation", "^(?!read committed$)", .warning,
            "producers fail on conflicts instead of waiting, and some of their calls are refused", "'read committed'"),
        SettingRule(
            "log_statement", "^(all|mod)$", .warning, "the server's log holds device tokens and payloads", "none"),
        SettingRule(
            "log_min_duration_statement", "^0 *[a-z]*$", .warning,
            "the server's log holds device tokens and payloads", "-1"),
        SettingRule(
            "client_min_messages", "^error$", .warning,
            "sessions do not learn that a commit is missing on the synchronous standby", "notice"),
    ]
}
