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

    /// What would be lost with an app. $1 tenant; $2 bundle ID.
    static let appContents = Statement(
        "app_contents",
        #"""
        select coalesce(sum((select count(*) from pushq.device d where d.queue_id = q.id)), 0)::bigint,
               coalesce(sum((select count(*) from pushq.job j where j.queue_id = q.id)
                          + (select count(*) from pushq.lease l where l.queue_id = q.id)), 0)::bigint
        from pushq.app a
        join pushq.tenant t on t.id = a.tenant_id
        left join pushq.queue q on q.tenant_id = a.tenant_id and q.app_id = a.id
        where t.name = $1 and a.bundle_id = $2
        group by a.id
        """#)

    /// Removes an app with its queues and all that they hold. Taking a lease's row away fences its worker, so nothing of it is
    /// written afterwards. History goes when its day is dropped. $1 tenant; $2 bundle ID.
    static let removeApp = Statement(
        "remove_app",
        #"""
        with gone as materialized (
          select a.tenant_id, a.id from pushq.app a join pushq.tenant t on t.id = a.tenant_id
          where t.name = $1 and a.bundle_id = $2),
        q as materialized (
          select q.id from pushq.queue q join gone g on q.tenant_id = g.tenant_id and q.app_id = g.id),
        j as (delete from pushq.job where queue_id in (select id from q)),
        l as (delete from pushq.lease where queue_id in (select id from q)),
        d as (delete from pushq.device where queue_id in (select id from q)),
        h as (delete from pushq.channel where queue_id in (select id from q)),
        n as (delete from pushq.newest_update where queue_id in (select id from q)),
        f as (delete from pushq.feedback where queue_id in (select id from q)),
        fr as (delete from pushq.feedback_record where queue_id in (select id from q)),
        fp as (delete from pushq.feedback_poll where queue_id in (select id from q)),
        lm as (delete from pushq.list_member where queue_id in (select id from q)),
        li as (delete from pushq.list where queue_id in (select id from q)),
        o as (delete from pushq.fan_out where queue_id in (select id from q)),
        y as (delete from pushq.campaign_tally where queue_id in (select id from q)),
        c as (delete from pushq.campaign where queue_id in (select id from q)),
        m as (delete from pushq.message where queue_id in (select id from q)),
        s as (delete from pushq.send_key where queue_id in (select id from q)),
        p as (delete from pushq.pace where queue_id in (select id from q)),
        e as (delete from pushq.queue where id in (select id from q))
        delete from pushq.app a using gone g where a.tenant_id = g.tenant_id and a.id = g.id returning a.id
        """#)
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
        try await execute(.appContents, [.text(tenant), .text(bundleID)]).first.map { row in
            AppContents(deviceCount: Int(row.int8(0)), jobCount: Int(row.int8(1)))
        }
    }

    /// Removes an app with its queues, devices, campaigns and jobs. False if there is none.
    package func removeApp(_ bundleID: String, of tenant: String) async throws(PostgresError) -> Bool {
        try await execute(.removeApp, [.text(tenant), .text(bundleID)]).count > 0
    }
}
