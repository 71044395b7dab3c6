import Foundation
import LocalStack
import TestSupport
import Testing

/// `docs/simulator.md` shows how other programs send to the simulator. The tests run each of its commands, which must
/// print what the page says.
@Suite(.interop, .timeLimit(.minutes(10)))
struct `The page on the simulator` {
    /// The commands after `$` in a block, and the output below them.
    private struct Block {
        var commands = ""
        var output: [String] = []
    }

    private func blocks() throws -> [Block] {
        let root = URL(filePath: #filePath).appending(path: "../../../..").standardized
        let page = try String(contentsOf: root.appending(path: "docs/simulator.md"), encoding: .utf8)
        return page.matches(of: #/```console\n(.*?)```/#.dotMatchesNewlines()).map { match in
            var (block, isContinuation) = (Block(), false)
            for line in match.output.1.split(separator: "\n") {
                guard isContinuation || line.hasPrefix("$ ") else {
                    block.output.append(String(line))
                    continue
                }
                block.commands += (isContinuation ? line : line.dropFirst(2)) + "\n"
                isContinuation = line.hasSuffix("\\")
            }
            return block
        }
    }

    @Test func `shows commands that do what it says`() async throws {
        let blocks = try blocks()
        #expect(blocks.count == 4)
        let (folder, reaper) = (try TemporaryFolder(), try Reaper())
        let bin = URL(filePath: Executable.pushq.command([], output: "", errors: "").executable)
            .deletingLastPathComponent()
            .path
        func shell(_ script: String, _ name: String, port: String) throws -> ChildProcess {
            let text =
                "cd '\(folder.path("."))'; PATH='\(bin)':$PATH; exec 2>&1\n" + script.replacing("2197", with: port)
            var command = ProcessCommand("/bin/bash", ["-c", text])
            command.output = .file(folder.path(name))
            return try reaper.start(command)
        }
        // Only the name of the page's port matters: another port may be used here.
        let simulator = try shell("exec " + blocks[0].commands, "simulator", port: "0")
        let said = try await eventually("the simulator is ready", within: .seconds(60)) {
            folder.read("simulator")
        } until: {
            $0.contains("team id")
        }
        let port = try #require(said.firstMatch(of: #/address +127.0.0.1:(\d+)\n/#)?.output.1)
        // All blocks run in one shell, because a later block uses what an earlier one sets.
        var script = "set -e\n"
        for (index, block) in blocks.enumerated().dropFirst() {
            script += "echo BLOCK \(index)\n" + block.commands
        }
        let run = try shell(script, "run", port: String(port))
        #expect(await run.waitForExit(within: .seconds(120)) == .code(0), "\(folder.read("run"))")
        let outputs = folder.read("run").split(separator: #/BLOCK \d\n/#)
        #expect(outputs.count == 3)
        for (block, output) in zip(blocks.dropFirst(), outputs) {
            #expect(!block.output.isEmpty)
            for line in block.output { #expect(output.contains(line), "\(output)") }
        }
        simulator.signal(SIGTERM)
        #expect(await simulator.waitForExit(within: .seconds(60)) == .code(0))
        #expect(folder.read("simulator").contains(#/accepted +10,001\n/#), "\(folder.read("simulator"))")
        await reaper.end()
    }
}
