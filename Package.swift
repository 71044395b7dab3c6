// swift-tools-version: 6.2
import PackageDescription

// Every target is built alike: Swift 6, complete concurrency checking, strict memory safety
// (a pointer access without `unsafe` is an error) and no warnings.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
]

func layer(_ name: String, on dependencies: [Target.Dependency] = [], plugins: [Target.PluginUsage] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings, plugins: plugins)
}

func tests(of names: [Target.Dependency], as name: String) -> Target {
    .testTarget(name: name, dependencies: names, swiftSettings: settings)
}

// Listed from the bottom up: a layer knows only what stands above it in this list.
let package = Package(
    name: "pushq",
    products: [
        .executable(name: "pushq", targets: ["pushq"]),
        .executable(name: "pushq-admin", targets: ["pushq-admin"]),
    ],
    targets: [
        // The only doors to C: two libraries, and what Swift's Glibc module leaves out of the C library.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CLinux"),

        // The domain, and protocol without I/O.
        layer("QueueCore"),
        layer("HTTP2"),

        // What the machine gives: keys and TLS, sockets and the event loop.
        layer("Cryptography", on: ["COpenSSL"]),
        layer("Transport", on: ["CLinux", "Cryptography"]),

        // What a process tells: metrics, a server for them, and a client for webhooks.
        layer("Metrics"),
        layer("HTTP1", on: ["Transport", "Cryptography"]),

        // What Apple defines, and what PostgreSQL holds.
        layer("APNs", on: ["QueueCore", "HTTP2", "Transport", "Cryptography"]),
        layer(
            "PostgresStore", on: ["CPostgres", "QueueCore", "Transport", "Cryptography"],
            plugins: ["EmbedFilesPlugin"]),

        // The engine.
        layer(
            "Workers",
            on: ["QueueCore", "APNs", "PostgresStore", "Transport", "Cryptography", "Metrics", "HTTP1"]),

        // What runs beside it on a developer's machine: a local APNs, a private PostgreSQL.
        layer("APNsSimulator", on: ["QueueCore", "HTTP2", "Transport", "Cryptography"]),
        layer("LocalStack", on: ["Transport"]),

        // The executables and what they share.
        layer("Terminal", on: ["QueueCore", "PostgresStore", "Transport", "Cryptography"]),
        layer(
            "OperatorViews", on: ["Terminal", "PostgresStore", "HTTP1", "QueueCore", "Transport", "Cryptography"],
            plugins: ["EmbedFilesPlugin"]),
        .executableTarget(
            name: "pushq",
            dependencies: [
                "Terminal", "Workers", "PostgresStore", "APNs", "APNsSimulator", "LocalStack", "QueueCore",
                "Transport", "Cryptography",
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "pushq-admin",
            dependencies: [
                "OperatorViews", "Terminal", "Workers", "PostgresStore", "APNs", "HTTP1", "QueueCore", "Transport",
                "Cryptography",
            ],
            swiftSettings: settings),

        // Puts the SQL files of `migrations/` into PostgresStore, and the page of `dashboard/` into OperatorViews, as
        // string literals.
        .executableTarget(name: "EmbedFiles", swiftSettings: settings),
        .plugin(
            name: "EmbedFilesPlugin", capability: .buildTool(), dependencies: ["EmbedFiles"],
            path: "Plugins/EmbedFiles"),

        // Figures for docs/performance.md.
        .executableTarget(
            name: "bench",
            dependencies: [
                "LocalStack", "APNs", "APNsSimulator", "PostgresStore", "QueueCore", "Transport", "Cryptography",
                "TestSupport",
            ],
            path: "bench", exclude: ["README.md", "run", "calls", "audiences", "profile", "restraints", "measured"],
            swiftSettings: settings),

        // Tests mirror the sources.
        .target(
            name: "TestSupport",
            dependencies: [
                "LocalStack", "PostgresStore", "APNs", "APNsSimulator", "Transport", "Cryptography", "QueueCore",
                "HTTP2",
            ],
            path: "Tests/TestSupport", swiftSettings: settings),
        .executableTarget(
            name: "Chaos",
            dependencies: ["TestSupport", "LocalStack", "PostgresStore", "Transport", "QueueCore"],
            path: "Tests/Chaos", swiftSettings: settings),
        tests(of: ["QueueCore", "TestSupport"], as: "QueueCoreTests"),
        tests(of: ["HTTP2", "TestSupport"], as: "HTTP2Tests"),
        tests(of: ["Cryptography"], as: "CryptographyTests"),
        tests(of: ["Transport", "Cryptography", "COpenSSL"], as: "TransportTests"),
        tests(
            of: ["APNs", "APNsSimulator", "TestSupport", "Transport", "Cryptography", "QueueCore", "HTTP2"],
            as: "APNsTests"),
        tests(
            of: ["PostgresStore", "TestSupport", "LocalStack", "Transport", "QueueCore", "Cryptography"],
            as: "PostgresStoreTests"),
        tests(
            of: ["APNsSimulator", "TestSupport", "Transport", "Cryptography", "HTTP2", "QueueCore"],
            as: "APNsSimulatorTests"),
        tests(
            of: [
                "Workers", "APNs", "APNsSimulator", "PostgresStore", "TestSupport", "Transport", "Cryptography",
                "QueueCore", "HTTP2", "Metrics",
            ],
            as: "WorkersTests"),
        tests(of: ["Metrics"], as: "MetricsTests"),
        tests(of: ["HTTP1", "LocalStack", "TestSupport", "Transport", "Cryptography"], as: "HTTP1Tests"),
        tests(of: ["LocalStack", "Transport"], as: "LocalStackTests"),
        tests(of: ["Terminal", "PostgresStore", "QueueCore", "Transport"], as: "TerminalTests"),
        tests(
            of: ["OperatorViews", "Terminal", "PostgresStore", "HTTP1", "QueueCore", "Transport"],
            as: "OperatorViewsTests"),
        tests(
            of: [
                "TestSupport", "APNsSimulator", "PostgresStore", "LocalStack", "QueueCore", "Transport", "Cryptography",
            ],
            as: "EndToEndTests"),
        .testTarget(
            name: "InteropTests",
            dependencies: [
                "TestSupport", "LocalStack", "APNs", "APNsSimulator", "QueueCore", "Transport", "Cryptography",
            ],
            exclude: ["Python"], swiftSettings: settings),
        tests(of: [], as: "RepositoryTests"),
    ]
)

// Layers that act for each push. Swift checks at run time that nobody else has a class's property while it is changed:
// a quarter of a worker's CPU (docs/decisions-code.md). Debug builds, and so all tests, still check.
let unchecked = SwiftSetting.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
for target in package.targets where ["HTTP2", "Transport", "APNs", "Workers"].contains(target.name) {
    target.swiftSettings = settings + [unchecked]
}

// A program for libFuzzer, which instruments all that is built with it: only when scripts/fuzz asks for it.
if Context.environment["PUSHQ_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "Fuzz", dependencies: ["QueueCore", "HTTP1", "HTTP2", "Cryptography", "APNs"], path: "fuzz",
            exclude: ["corpus", "failures"], swiftSettings: settings))
}

// Some test targets alone, with what they need: a sanitizer's build is half as long without the rest.
if let names = Context.environment["PUSHQ_TESTS"]?.split(separator: " ").map(String.init), !names.isEmpty {
    var needed: Set<String> = []
    var found = names
    while let name = found.popLast() {
        guard needed.insert(name).inserted else { continue }
        guard let target = package.targets.first(where: { $0.name == name }) else {
            fatalError("PUSHQ_TESTS names \(name), which is no target of Package.swift")
        }
        for case .byNameItem(let dependency, _) in target.dependencies { found.append(dependency) }
        for case .plugin(name: let plugin, package: _) in target.plugins ?? [] { found.append(plugin) }
    }
    package.products = []
    package.targets.removeAll { !needed.contains($0.name) }
}
