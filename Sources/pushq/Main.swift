import Terminal

/// What sends, and what one sends with.
@main
enum Main {
    static func main() async {
        await Program(
            name: "pushq", version: Version.current,
            summary:
                "A push-notification queue for APNs on PostgreSQL: sends, and lets campaigns and workers be tried.",
            commands: [
                .command(DemoCommand.self),
                .command(DevCommand.self),
                .command(WorkCommand.self),
                .command(SendCommand.self),
                .command(CampaignCommand.self),
                .group(
                    name: "schedule", summary: "Campaigns that workers start again and again, as cron expressions say.",
                    ScheduleCommands.all),
                .command(BroadcastCommand.self),
                .command(LintCommand.self),
                .command(SimulateCommand.self),
            ]
        ).main()
    }
}
