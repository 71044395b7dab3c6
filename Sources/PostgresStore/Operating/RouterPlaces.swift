extension Statement {
    fileprivate static let isRouter = Statement(
        "is_router", "select to_regclass('pushq_router.place') is not null as is_router")

    /// A database that a router does not know it cannot be told of so.
    fileprivate static let tellRouter = Statement(
        "tell_router",
        #"""
        with told as (
          update pushq_router.place p
          set database = $number
          where p.tenant = $tenant and p.database <> $number
            and exists (select from pushq_router.database d where d.number = $number))
        select exists (select from pushq_router.database d where d.number = $number) as is_known
        """#)
}

/// What is asked of a router's database (``RouterScript``), and told to it.
extension PostgresConnection {
    /// Whether this is one.
    package func isRouter() async throws(PostgresError) -> Bool {
        try await execute(.isRouter).one().bool("is_router")
    }

    /// Says that a tenant is in another database: calls that begin after this go there, by the logins that it had.
    /// Returns whether the router knows the database; if not, nothing has changed.
    /// - Parameter number: that of the database.
    package func tellRouter(that tenant: String, isIn number: Int) async throws(PostgresError) -> Bool {
        try await execute(.tellRouter, ["tenant": .text(tenant), "number": .int4(Int32(number))]).one().bool("is_known")
    }
}
