import Foundation
import LocalStack
import TestSupport
import Testing
import Transport

/// Tests the files for containers in `deploy/`. No container is needed: the tests read the files and run their
/// commands.
@Suite(.timeLimit(.minutes(10))) struct `The files for containers` {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().appending(path: "deploy")

    private typealias Fields = [String: Any]

    /// The documents of a file, as an independent YAML reader parses them.
    private static func documents(_ path: String) async throws -> [Fields] {
        let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
        let ended = try await Executable(path: "/usr/bin/python3").run([
            "-c", script, folder.appending(path: path).path,
        ])
        let documents = try JSONSerialization.jsonObject(with: Data(ended.output.utf8))
        return try #require(documents as? [Fields], "\(ended.errors)")
    }

    /// The values of an instruction in the Dockerfile's last stage.
    private static func image(_ instruction: String) throws -> [String] {
        let text = try String(contentsOf: folder.appending(path: "docker/Dockerfile"), encoding: .utf8)
            .replacing("\\\n", with: " ")
        let lines = text.split(separator: "\n")
        let last = try #require(lines.lastIndex { $0.hasPrefix("FROM ") })
        return lines[last...].filter { $0.hasPrefix("\(instruction) ") }
            .map { String($0.dropFirst(instruction.count + 1)) }
    }

    private static func imageCommand() throws -> [String] {
        try JSONDecoder().decode([String].self, from: Data(#require(image("CMD").first).utf8))
    }

    /// The comment in the Compose file's head, with the commands for its user.
    private static func head() throws -> String {
        let file = try String(contentsOf: folder.appending(path: "docker/compose.yaml"), encoding: .utf8)
        return file.split(separator: "\n").prefix { $0.hasPrefix("#") }.map { $0.dropFirst() }.joined(separator: "\n")
    }

    private static func compose() async throws -> [String: Fields] {
        try #require(await documents("docker/compose.yaml").first?["services"] as? [String: Fields])
    }

    /// The pod of the workers.
    private static func pod() async throws -> Fields {
        let deployment = try await documents("kubernetes/workers.yaml").first { $0["kind"] as? String == "Deployment" }
        let template = (deployment?["spec"] as? Fields)?["template"] as? Fields
        return try #require(template?["spec"] as? Fields)
    }

    private static func container(of pod: Fields) throws -> Fields {
        let containers = try #require(pod["containers"] as? [Fields])
        #expect(containers.count == 1)
        return containers[0]
    }

    /// This package's executable for a command of the image.
    private static func executable(_ command: [String]) throws -> Executable {
        try #require(["pushq": Executable.pushq, "pushq-admin": .admin][command[0]], "\(command)")
    }

    // MARK: Agreement

    @Test func `agree in user, port, signal and version`() async throws {
        let (pod, compose) = (try await Self.pod(), try await Self.compose())
        let container = try Self.container(of: pod)
        let user = try #require((pod["securityContext"] as? Fields)?["runAsUser"] as? Int)
        #expect(user > 0)
        #expect(try Self.image("USER") == ["\(user):\(user)"])
        #expect(try Self.image("STOPSIGNAL") == ["SIGTERM"])

        let port = try #require(Self.image("EXPOSE").first)
        #expect(try Self.imageCommand().contains("0.0.0.0:\(port)"))
        let ports = try #require(container["ports"] as? [Fields])
        #expect(ports.map { "\($0["containerPort"] ?? "")" } == [port])
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = try #require((container[probe] as? Fields)?["httpGet"] as? Fields)
            #expect(get["port"] as? String == ports[0]["name"] as? String)
        }
        #expect(compose["worker"]?["ports"] as? [String] == ["127.0.0.1:\(port):\(port)"])

        let version = try await Executable.pushq.run(["--version"]).output.split(separator: " ").last?.dropLast()
        let image = "pushq:\(try #require(version))"
        let own = compose.values.compactMap { $0["image"] as? String }.filter { $0.hasPrefix("pushq") }
        #expect(own.count == 5 && Set(own) == [image])
        for document in try await Self.documents("kubernetes/workers.yaml") {
            let pod = ((document["spec"] as? Fields)?["template"] as? Fields)?["spec"] as? Fields
            for container in pod?["containers"] as? [Fields] ?? [] { #expect(container["image"] as? String == image) }
        }
    }

    /// Kubernetes and Docker kill a process that has not ended by then.
    @Test func `give a worker more time than it takes to drain`() async throws {
        let help = try await Executable.pushq.run(["work", "--help"]).output
        let drain = try #require(help.firstMatch(of: /--drain DURATION[^(]*\(default: (\d+)s\)/))
        #expect(try !Self.imageCommand().contains("--drain"), "then it is that time which counts")
        let seconds = try #require(Int(drain.output.1))
        let pod = try await Self.pod()
        #expect(try #require(pod["terminationGracePeriodSeconds"] as? Int) >= seconds + 10)
        let grace = try #require(try await Self.compose()["worker"]?["stop_grace_period"] as? String)
        #expect(try #require(Int(grace.dropLast())) >= seconds + 10)
        let page = Self.folder.deletingLastPathComponent().appending(path: "docs/operating.md")
        let advised = try String(contentsOf: page, encoding: .utf8).firstMatch(of: /docker run --stop-timeout (\d+)/)
        #expect(try #require(advised.flatMap { Int($0.output.1) }) >= seconds + 10)
    }

    /// While PostgreSQL or APNs is out of reach, no worker is ready.
    @Test func `let a node be drained, one worker after the other, also while none is ready`() async throws {
        let documents = try await Self.documents("kubernetes/workers.yaml")
        let budget = documents.first { $0["kind"] as? String == "PodDisruptionBudget" }?["spec"] as? Fields
        #expect(budget?["maxUnavailable"] as? Int == 1)
        #expect(budget?["unhealthyPodEvictionPolicy"] as? String == "AlwaysAllow")
    }

    /// The executables are linked with libraries from packages that a bare system does not have.
    @Test func `install the libraries that the executables need`() async throws {
        let installed = try #require(Self.image("RUN").first { $0.contains("apt-get install") }).split(separator: " ")
        let linked = try await Executable(path: "/usr/bin/ldd").run(["\(Executable.folder)/pushq"]).output
        for library in ["libpq.so.5": "libpq5", "libssl.so.3": "libssl3", "libstdc++.so.6": "libstdc++6"] {
            #expect(linked.contains(library.key))
            #expect(installed.contains(Substring(library.value)), "\(library)")
        }
        // Packages for time zones and trusted CAs.
        #expect(installed.contains("tzdata") && installed.contains("ca-certificates"))
    }

    @Test func `run as nobody in particular, and may write nothing`() async throws {
        for (name, service) in try await Self.compose() where name != "postgres" {
            #expect(service["read_only"] as? Bool == true, "\(name)")
            #expect(service["cap_drop"] as? [String] == ["ALL"], "\(name)")
        }
        for document in try await Self.documents("kubernetes/workers.yaml") {
            let pod = ((document["spec"] as? Fields)?["template"] as? Fields)?["spec"] as? Fields
            guard let pod else { continue }
            #expect((pod["securityContext"] as? Fields)?["runAsNonRoot"] as? Bool == true)
            #expect(pod["automountServiceAccountToken"] as? Bool == false)
            let security = try #require(Self.container(of: pod)["securityContext"] as? Fields)
            #expect(security["readOnlyRootFilesystem"] as? Bool == true)
            #expect(security["allowPrivilegeEscalation"] as? Bool == false)
        }
    }

    // MARK: Commands

    @Test func `make secrets that nobody else can read, and overwrite none`() async throws {
        let file = try String(contentsOf: Self.folder.appending(path: "docker/compose.yaml"), encoding: .utf8)
        let secretsCommand = #/\(umask 077.*>\.env\)/#.dotMatchesNewlines()
        let command = try #require(Self.head().firstMatch(of: secretsCommand)?.output)
        let folder = try TemporaryFolder()
        let script = "cd '\(folder.path(""))'\n\(command)"
        let made = try await Executable(path: "/bin/bash").run(["-c", script])
        #expect(made.code == 0, "\(made.errors)")
        let secrets = folder.read(".env")
        let names = secrets.matches(of: /(\w+)=[0-9a-f]{64}\n/).map { String($0.output.1) }
        let wanted = file.matches(of: /\$\{(\w+):\?/).map { String($0.output.1) }
        #expect(names.count == 3 && Set(names) == Set(wanted))
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.path(".env"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)

        // Without the master key, the credentials in the database cannot be read.
        let again = try await Executable(path: "/bin/bash").run(["-c", script])
        #expect(again.code != 0)
        #expect(folder.read(".env") == secrets)
    }

    /// A clone under a strict umask keeps the script to its owner. It is mounted as it is, and PostgreSQL's image runs
    /// it as another user.
    @Test func `open the script that makes the worker's login to PostgreSQL's image`() async throws {
        let before = try #require(Self.head().split(separator: "docker compose up").first)
        let command = try #require(before.firstMatch(of: /chmod [^\n#]+/)?.output)
        let folder = try TemporaryFolder()
        let script = folder.path("logins.sh")
        try FileManager.default.copyItem(atPath: Self.folder.appending(path: "docker/logins.sh").path, toPath: script)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: script)
        let ended = try await Executable(path: "/bin/sh").run(["-c", "cd '\(folder.path(""))' && \(command)"])
        #expect(ended.code == 0, "\(ended.errors)")
        let attributes = try FileManager.default.attributesOfItem(atPath: script)
        #expect(attributes[.posixPermissions] as? Int == 0o755)
    }

    /// Starts the services of the Compose file one after the other, on one server.
    @Test func `start a worker that answers its probes and drains`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        try await postgres.createDatabase("pushq")
        let compose = try await Self.compose()
        let folder = try TemporaryFolder()
        let secrets = ["PUSHQ_ADMIN_PASSWORD": "a", "PUSHQ_WORKER_PASSWORD": "w'", "PUSHQ_MASTER_KEY": key]
        try await makeLogin(with: compose["postgres"]?["environment"] as? [String: String] ?? [:], secrets, postgres)

        for name in ["migrate", "grant"] {
            let command = try #require(compose[name]?["command"] as? [String])
            let ended = try await Self.executable(command).run(
                Array(command.dropFirst()), environment: environment(of: compose[name], secrets, postgres))
            #expect(ended.code == 0, "\(name): \(ended.errors)")
        }

        let command = try Self.imageCommand()
        #expect(compose["worker"]?["command"] == nil)
        let worker = try Self.executable(command).start(
            command.dropFirst().map { $0.replacing(/0\.0\.0\.0:\d+/, with: "127.0.0.1:0") },
            environment: environment(of: compose["worker"], secrets, postgres), output: folder.path("out"),
            errors: folder.path("log"))
        let port = try await eventually("the worker serves its pages", within: .seconds(30)) {
            folder.read("log").firstMatch(of: /metrics are served at 127\.0\.0\.1:(\d+)/).flatMap {
                UInt16($0.output.1)
            }
        } until: {
            $0 != nil
        }
        let container = try Self.container(of: await Self.pod())
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = try #require((container[probe] as? Fields)?["httpGet"] as? Fields)
            let path = try #require(get["path"] as? String)
            try await eventually("\(path) answers 200", within: .seconds(30)) {
                try await PlainClient.get(path, from: .tcp(host: "127.0.0.1", port: #require(port))).status == 200
            }
        }
        let check = try #require((compose["worker"]?["healthcheck"] as? Fields)?["test"] as? [String])
        #expect(check.prefix(3) == ["CMD", "bash", "-c"])
        // In a Compose file, $$ stands for $.
        let script = check[3].replacing("$$", with: "$").replacing("/9464", with: "/\(try #require(port))")
        #expect(try await Executable(path: "/bin/bash").run(["-c", script]).code == 0)
        worker.signal(SIGTERM)
        #expect(await worker.waitForExit(within: .seconds(40)) == .code(0), "\(folder.read("log"))")
        #expect(try await Executable(path: "/bin/bash").run(["-c", script]).code != 0, "nobody is healthy any more")
        await reaper.end()
    }

    private let key = String(repeating: "5c", count: 32)

    /// Runs the scripts in a folder as PostgreSQL's image does.
    private func makeLogin(
        with settings: [String: String], _ secrets: [String: String], _ postgres: PrivatePostgres
    ) async throws {
        let script = Self.folder.appending(path: "docker/logins.sh").path
        var environment = filled(settings, secrets)
        #expect(environment["POSTGRES_USER"] == "pushq" && environment["POSTGRES_DB"] == "pushq")
        environment["PGHOST"] = postgres.socketFolder
        let ended = try await Executable(path: "/bin/sh").run([script], environment: environment)
        #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
    }

    /// The environment of a service, with this test's server instead of the one in the Compose file.
    private func environment(
        of service: Fields?, _ secrets: [String: String], _ postgres: PrivatePostgres
    ) throws -> [String: String] {
        var environment = filled(try #require(service?["environment"] as? [String: String]), secrets)
        let url = try #require(environment["PUSHQ_DATABASE_URL"])
        #expect(url.hasSuffix("@postgres/pushq?sslmode=disable"))
        environment["PUSHQ_DATABASE_URL"] = url.replacing("@postgres/", with: "@/") + "&host=\(postgres.socketFolder)"
        return environment
    }

    /// Replaces `${NAME:?what to do}` with the value of NAME.
    private func filled(_ settings: [String: String], _ secrets: [String: String]) -> [String: String] {
        settings.mapValues { value in
            value.replacing(/\$\{(\w+):\?[^}]*\}/) { secrets[String($0.output.1)] ?? "missing" }
        }
    }
}
