import Terminal

/// The commands that send pushes, and that serve to send them.
@main
enum Main {
    static func main() async {
        await Program(
            name: "pushq", version: Version.current,
            summary:
                "A push-notification queue for APNs on PostgreSQL: sends pushes, runs workers, simulates APNs.",
            commands: [
                .command(DemoCommand.self),
                .command(DevCommand.self),
                .command(WorkCommand.self),
                .command(SendCommand.self),
                .command(CampaignCommand.self),
                .group(
                    name: "schedule", summary: "Campaigns that workers start repeatedly, by cron expressions.",
                    ScheduleCommands.all),
                .command(BroadcastCommand.self),
                .command(LintCommand.self),
                .command(SimulateCommand.self),
            ]
        ).main()
    }
}
