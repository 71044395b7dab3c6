package import FoundationEssentials

extension Statement {
    /// $1 tenant; $2 bundle ID.
    static let createApp = Statement(
        "create_app",
        #"""
        with t as materialized (select id from pushq.tenant where name = $1),
        made as (
          insert into pushq.app (tenant_id, bundle_id) select t.id, $2 from t
          on conflict on constraint app_bundle_once do nothing returning id)
        select exists (select from t), exists (select from made)
        """#)

    static let apps = Statement(
        "apps",
        #"""
        select t.name, a.bundle_id, array_to_string(array(
                 select q.environment from pushq.queue q where q.tenant_id = a.tenant_id and q.app_id = a.id order by 1), ', '),
               a.created_at
        from pushq.app a join pushq.tenant t on t.id = a.tenant_id
        where $1::text is null or t.name = $1
        order by t.name, a.bundle_id
        """#)

    /// What would be lost with an app, counted to $3. $1 tenant; $2 bundle ID.
    static let appContents = Statement(
        "app_contents",
        #"""
        select least($3, coalesce(sum(
                 (select count(*) from (select from pushq.device d where d.queue_id = q.id limit $3) c)), 0))::bigint,
               least($3, coalesce(sum(
                 (select count(*) from (select from pushq.job j where j.queue_id = q.id limit $3) c)
                 + (select count(*) from (select from pushq.lease l where l.queue_id = q.id limit $3) c)), 0))::bigint
        from pushq.app a
        join pushq.tenant t on t.id = a.tenant_id
        left join pushq.queue q on q.tenant_id = a.tenant_id and q.app_id = a.id
        where t.name = $1 and a.bundle_id = $2
        group by a.id
        """#)

    static let removeApp = Statement("remove_app", "select pushq.remove_app($1, $2)")
}

/// An app as an operator sees it.
package struct AppSummary: Sendable {
    package let tenant: String
    package let bundleID: String
    /// The environments that it has queues in.
    package let environments: String
    package let createdAt: Date
}

/// What an app's queues hold.
package struct AppContents: Sendable {
    /// What there is beyond this is not counted.
    package static let countedTo = 100_000

    package let deviceCount: Int
    package let jobCount: Int
}

extension PostgresConnection {
    /// Makes an app of a tenant.
    package func createApp(_ bundleID: String, of tenant: String) async throws(PostgresError) -> Creation {
        Creation(try await execute(.createApp, [.text(tenant), .text(bundleID)]).first)
    }

    /// The apps of one tenant, or of all.
    package func apps(of tenant: String?) async throws(PostgresError) -> [AppSummary] {
        try await execute(.apps, [.text(tenant)]).map { row in
            AppSummary(
                tenant: row.text(0), bundleID: row.text(1), environments: row.text(2), createdAt: row.time(3))
        }
    }

    /// What an app's queues hold; nil without such an app.
    package func contents(ofApp bundleID: String, of tenant: String) async throws(PostgresError) -> AppContents? {
        try await execute(.appContents, [.text(tenant), .text(bundleID), .int8(Int64(AppContents.countedTo))]).first.map
        { row in
            AppContents(deviceCount: Int(row.int8(0)), jobCount: Int(row.int8(1)))
        }
    }

    /// Removes an app with its queues. What they held is deleted afterwards, in steps of some thousand rows; should that be interrupted,
    /// upkeep goes on with it. False if there is no such app.
    /// - Parameter progress: is told how many rows, at the least, have been deleted.
    package func removeApp(
        _ bundleID: String, of tenant: String, progress: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> Bool {
        guard let row = try await execute(.removeApp, [.text(tenant), .text(bundleID)]).first, !row.isNull(0) else {
            return false
        }
        var steps = 0
        for queueID in row.int4Array(0) {
            _ = try await clear(queue: queueID) { () async throws(PostgresError) in
                steps += 1
                progress(steps * 5000)
                return true
            }
        }
        return true
    }
}
