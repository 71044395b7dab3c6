package import FoundationEssentials

extension Statement {
    static let createApp = Statement(
        "create_app",
        #"""
        with t as materialized (select id from pushq.tenant where name = $tenant),
        made as (
          insert into pushq.app (tenant_id, bundle_id) select t.id, $bundle_id from t
          on conflict on constraint app_bundle_once do nothing returning id)
        select exists (select from t) as has_parent, exists (select from made) as was_made
        """#)

    static let apps = Statement(
        "apps",
        #"""
        select t.name as tenant, a.bundle_id, array_to_string(array(
                 select q.environment
                 from pushq.queue q
                 where q.tenant_id = a.tenant_id and q.app_id = a.id
                 order by 1), ', ') as environments,
               a.created_at
        from pushq.app a join pushq.tenant t on t.id = a.tenant_id
        where ($tenant::text is null or t.name = $tenant)
          and ($matching::text is null or position(lower($matching) in lower(a.bundle_id)) > 0)
        order by t.name, a.bundle_id
        limit $limit
        """#)

    /// What would be deleted with an app, counted up to a limit.
    static let appContents = Statement(
        "app_contents",
        #"""
        select least($limit, coalesce(sum(
                 (select count(*) from (select from pushq.device d where d.queue_id = q.id limit $limit) c)
               ), 0))::bigint as devices,
               least($limit, coalesce(sum(
                 (select count(*) from (select from pushq.job j where j.queue_id = q.id limit $limit) c)
                 + (select count(*) from (select from pushq.lease l where l.queue_id = q.id limit $limit) c)
               ), 0))::bigint as jobs
        from pushq.app a
        join pushq.tenant t on t.id = a.tenant_id
        left join pushq.queue q on q.tenant_id = a.tenant_id and q.app_id = a.id
        where t.name = $tenant and ($bundle_id::text is null or a.bundle_id = $bundle_id)
        having count(*) > 0
        """#)

    static let removeApp = Statement("remove_app", "select pushq.remove_app($tenant, $bundle_id)")
}

/// An app as an operator sees it.
package struct AppSummary: Sendable {
    package let tenant: String
    package let bundleID: String
    /// The environments in which it has queues.
    package let environments: String
    package let createdAt: Date
}

/// What the queues of an app or tenant hold.
package struct AppContents: Sendable {
    /// Counting stops here.
    package static let countedTo = 100_000

    package let deviceCount: Int
    package let jobCount: Int

    /// The contents of a tenant without apps.
    package static let none = AppContents(deviceCount: 0, jobCount: 0)
}

extension PostgresConnection {
    /// Creates an app of a tenant.
    package func createApp(_ bundleID: String, of tenant: String) async throws(PostgresError) -> CreationResult {
        do throws(PostgresError) {
            return CreationResult(
                try await execute(.createApp, ["tenant": .text(tenant), "bundle_id": .text(bundleID)]).one())
        } catch {
            guard error.violates("app_tenant_exists") else { throw error }
            return .parentMissing
        }
    }

    /// Returns the apps of one tenant, or of all tenants.
    package func apps(
        of tenant: String?, _ selection: ListSelection = ListSelection()
    ) async throws(PostgresError) -> [AppSummary] {
        try await execute(.apps, ["tenant": .text(tenant)] + selection.parameters).map { row in
            AppSummary(
                tenant: row.text("tenant"), bundleID: row.text("bundle_id"), environments: row.text("environments"),
                createdAt: row.time("created_at"))
        }
    }

    /// Returns what the queues of an app hold, or of all apps of a tenant; nil if there is no such app. Throws if the
    /// tenant of that app is in another database or is being moved to one.
    package func contents(ofApp bundleID: String?, of tenant: String) async throws(PostgresError) -> AppContents? {
        let contents = try await execute(
            .appContents,
            ["tenant": .text(tenant), "bundle_id": .text(bundleID), "limit": .int8(Int64(AppContents.countedTo))]
        ).first.map { row in
            AppContents(deviceCount: row.count("devices"), jobCount: row.count("jobs"))
        }
        if contents == nil, bundleID != nil { try await refuseMoved(tenant) }
        return contents
    }

    /// Removes an app with its queues, then deletes what the queues held in steps of some thousand rows. If that is
    /// interrupted, upkeep continues it. Returns false if there is no such app.
    /// - Parameter progress: called with the number of rows deleted so far.
    /// - Throws: ``UnfinishedRemoval`` if the app was removed, but not everything that its queues held was deleted;
    ///   an error if the tenant is in another database or is being moved to one.
    package func removeApp(
        _ bundleID: String, of tenant: String, progress: (Int) -> Void = { _ in }
    ) async throws -> Bool {
        guard let row = try await execute(.removeApp, ["tenant": .text(tenant), "bundle_id": .text(bundleID)]).first,
            !row.isNull("remove_app")
        else {
            try await refuseMoved(tenant)
            return false
        }
        var count = 0
        let always = { () async throws(PostgresError) -> Bool in true }
        do throws(PostgresError) {
            _ = try await clear(queues: row.int4Array("remove_app"), while: always) { _, rows in
                count += rows
                progress(count)
            }
        } catch {
            throw UnfinishedRemoval(
                what: "\(tenant)/\(bundleID)", cause: error, advice: "workers delete the rest within the hour")
        }
        return true
    }
}
