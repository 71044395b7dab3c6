import LocalStack
import Terminal

struct DemoCommand: Terminal.Command {
    static let name = "demo"
    static let users = CommandUsers.anybody
    static let summary = "Shows a whole campaign on an empty machine: a private PostgreSQL, a local APNs, workers."
    static let discussion = """
        The demo starts everything in processes of its own, as on servers, and removes it all when it ends. Some \
        devices are dead, and some pushes are refused and sent again. At the end a table shows what became of every \
        recipient. The exit code is 0 only if the figures add up.
        """
    static let examples = ["demo", "demo --examples examples", "demo --devices 1000000 --json"]

    @Option("Number of devices to make up.") var devices: Int?
    @Option("Worker processes.") var workers: Int = 2
    @Option("Use devices.csv, payload.json and rules.json of this folder.", "FOLDER") var examples: String?

    func run(_ console: Console) async throws {
        guard devices.map({ (1...100_000_000).contains($0) }) ?? true else {
            throw UsageError("--devices \(devices ?? 0) is not between 1 and 100000000")
        }
        guard (1...64).contains(workers) else { throw UsageError("--workers \(workers) is not between 1 and 64") }
        let material = try DemoMaterial(folder: examples, deviceCount: devices)
        let demo = Demo(material: material, workerCount: workers, minder: try Minder(), console: console)
        let report = try await demo.run()
        report.show(on: console)
        for problem in report.problems { console.remark("demo: \(problem)") }
        guard report.problems.isEmpty else { throw Unsuccessful() }
    }
}
