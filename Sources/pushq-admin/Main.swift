import Terminal

/// The operator's tool: manages a pushq database, and shows how it is doing.
@main
enum Main {
    static func main() async {
        await Program(
            name: "pushq-admin", version: Version.current,
            summary:
                "Sets up and manages a pushq database: tenants, apps, queues, credentials, devices, campaigns.",
            commands: [
                .command(MigrateCommand.self),
                .command(DoctorCommand.self),
                .command(StatsCommand.self),
                .command(TopCommand.self),
                .command(DashboardCommand.self),
                .command(AuditCommand.self),
                .command(TraceCommand.self),
                .group(
                    name: "tenant", summary: "Organisations, which own everything else.",
                    TenantCommands.all + TenantLoginCommands.all),
                .command(RouterCommand.self),
                .group(name: "app", summary: "Bundle IDs of a tenant.", AppCommands.all),
                .group(
                    name: "queue", summary: "One app in one environment; has a rate and can be paused.",
                    QueueCommands.all
                ),
                .group(
                    name: "credential", summary: "Certificates and signing keys that authenticate tenants to APNs.",
                    CredentialCommands.all),
                .group(name: "device", summary: "Device tokens of a queue.", DeviceCommands.all),
                .group(name: "channel", summary: "Broadcast channels of an app.", ChannelCommands.all),
                .group(name: "audience", summary: "Saved filters: whom campaigns go to.", AudienceCommands.all),
                .group(
                    name: "campaign", summary: "Messages to many devices, and their progress.", CampaignCommands.all),
                .group(
                    name: "send", summary: "Single sends and broadcasts, and their outcomes.", SendCommands.all),
                .group(name: "job", summary: "The jobs that campaigns and sends are made of.", JobCommands.all),
                .group(
                    name: "restore",
                    summary: "What to decide after the database was restored, or an old primary came back.",
                    RestoreCommands.all),
                .group(name: "feedback", summary: "What APNs reported about devices.", FeedbackCommands.all),
                .group(
                    name: "webhook", summary: "The URL to which reports about a tenant's devices are sent.",
                    WebhookCommands.all),
                .group(name: "worker", summary: "The processes that send.", WorkerCommands.all),
            ]
        ).main()
    }
}
