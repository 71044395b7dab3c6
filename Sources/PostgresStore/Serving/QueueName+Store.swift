import QueueCore

extension QueueName {
    /// Reads the columns `tenant`, `app` and `environment`; nil for an environment that only a newer version knows.
    init?(_ row: Row) {
        guard let environment = Environment(rawValue: row.text("environment")) else { return nil }
        self.init(tenant: row.text("tenant"), app: row.text("app"), environment: environment)
    }
}

extension Parameter {
    /// A queue by its name, as `pushq.queue_id` and the functions for producers take it; nil is null.
    static func queue(_ name: QueueName?) -> Parameter { .text(name?.description) }
}
