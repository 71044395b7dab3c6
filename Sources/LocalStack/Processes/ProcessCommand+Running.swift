import Transport

extension ProcessCommand {
    /// Runs the command to its end and returns its output.
    /// - Parameter reaper: ends the command if this program ends first.
    /// - Throws: ``LocalStackError/commandFailed(command:exit:output:)`` unless it exits with 0.
    @discardableResult
    package func run(registeredWith reaper: Reaper? = nil) async throws(LocalStackError) -> String {
        let pair = try SocketPair()
        var command = self
        command.output = .descriptor(pair.writing.descriptor)
        command.errors = command.output
        let child = try ChildProcess(command)
        reaper?.register(processID: child.processID)
        pair.writing.close()
        let bytes = await withCheckedContinuation { continuation in
            SystemThread.start {
                continuation.resume(returning: (try? pair.reading.readToEnd()) ?? [])
            }
        }
        let text = String(decoding: bytes, as: UTF8.self)
        guard let exit = await child.waitForExit(), exit != .code(0) else { return text }
        let words = ([executable] + arguments).joined(separator: " ")
        throw .commandFailed(command: words, exit: exit, output: text.lastLines(6))
    }
}

extension String {
    /// The end of a log, for an error's text.
    func lastLines(_ count: Int) -> String {
        split(whereSeparator: \.isNewline).suffix(count).joined(separator: " · ")
    }
}
