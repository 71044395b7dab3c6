import LocalStack
import Terminal

struct DemoCommand: Terminal.Command {
    static let name = "demo"
    static let users = CommandUsers.anybody
    static let summary = "Runs a whole campaign on this machine: a private PostgreSQL, an APNs simulator, workers."
    static let discussion = """
        The demo starts each part as a process of its own, as on servers, and removes everything when it ends. Some \
        device tokens are dead, and some pushes are refused and sent again. At the end a table shows the outcome of \
        every recipient. The exit code is 0 only if the counts add up.
        """
    static let examples = ["demo", "demo --examples examples", "demo --devices 1000000 --json"]

    @Option("Number of devices to generate.") var devices: Int?
    @Option("Worker processes.") var workers: Int = 2
    @Option("Use devices.csv, payload.json and rules.json of this folder.", "FOLDER") var examples: String?

    func run(_ console: Console) async throws {
        guard devices.map({ (1...100_000_000).contains($0) }) ?? true else {
            throw UsageError("--devices \(devices ?? 0) is not between 1 and 100000000")
        }
        guard (1...64).contains(workers) else { throw UsageError("--workers \(workers) is not between 1 and 64") }
        let material = try DemoMaterial(folder: examples, deviceCount: devices)
        let demo = Demo(material: material, workerCount: workers, reaper: try Reaper(), console: console)
        let report = try await demo.run()
        report.show(on: console)
        for problem in report.problems { console.remark("demo: \(problem)") }
        guard report.problems.isEmpty else { throw Unsuccessful() }
    }
}
