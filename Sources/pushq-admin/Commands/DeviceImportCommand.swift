import PostgresStore
import QueueCore
import Terminal

struct DeviceImportCommand: Command {
    static let name = "import"
    static let summary = "Adds the devices of a CSV file, all or none."
    static let discussion = """
        The file has a header with a column 'token', and 'user_key' and 'active' where they are known; columns are divided by \
        commas, semicolons or tabs. Or it holds bare tokens, one a line. If a token is there twice, its last line counts. New devices \
        whose 'active' is false are inactive here, too.

        Devices that are there stay as they are, except for a new user key. A device that its app has registered \
        (pushq.register_device) stays with the user whom the app named: the file may be older. Inactive ones stay inactive, unless --reactivate is \
        given: it also keeps active ones, about which a report of APNs is still on its way. Only an app's own report is a \
        registration: APNs may find an imported token dead since long before the import, and the device is then deactivated.
        """
    static let examples = [
        "device import acme/com.acme.shop/production devices.csv",
        "device import acme/com.acme.shop/production - --reactivate",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The file; - is standard input.") var file: InputFile
    @Flag("Reactivate inactive devices, no matter what APNs reported about them before.") var reactivate
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (queue, reactivates) = (queue, reactivate)
        let devices = try file.devices()
        let started = ContinuousClock.now
        let summary = try await database.session { store in
            let bar = ProgressBar("reading", total: nil, on: console)
            defer { bar.finish() }
            return try await store.importDevices(from: devices, inQueue: queue, reactivates: reactivates) { count in
                bar.update(count)
            }
        }
        let seconds = (ContinuousClock.now - started).seconds
        console.show([
            ("read", .count(summary.read)), ("new", .count(summary.new)), ("changed", .count(summary.changed)),
            ("unchanged", .count(summary.unchanged)), ("inactive", .count(summary.inactive)),
            ("kept_by_app", .count(summary.keptByApp)),
            ("seconds", .decimal(seconds, places: 2)),
        ])
    }
}
