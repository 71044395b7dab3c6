import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `Loops that run side by side` {
    private struct Fault: Error, CustomStringConvertible { var description: String { "a fault" } }

    /// Three loops. One does what the test wants; the others run until they are told to end.
    private actor Course {
        private(set) var ended: [String] = []
        private var isToldToEnd = false

        /// Runs the loops, and returns the error with which they ended.
        func run(_ faulty: @escaping @Sendable (isolated Course) throws -> Void) async -> EngineError? {
            let loop = EventLoop(name: "loops")
            defer { loop.shutDown() }
            do throws(EngineError) {
                try await LoopGroup.run(
                    ["one", "faulty", "two"], on: loop,
                    { name in
                        if name == "faulty" { try await faulty(self) } else { await self.follow(name) }
                    }, mayEnd: { mayEnd }, endAll: { endAll() })
                return nil
            } catch {
                return error
            }
        }

        private var mayEnd: Bool {
            assertIsolated("asked from outside the actor whose state this is")
            return isToldToEnd
        }

        func endAll() {
            assertIsolated("told from outside the actor whose state this is")
            isToldToEnd = true
        }

        private func follow(_ name: String) async {
            while !isToldToEnd { try? await Task.sleep(for: .milliseconds(5)) }
            ended.append(name)
        }
    }

    @Test func `end with an error that names the one that ended before it was told to, when the others have ended`()
        async
    {
        let course = Course()
        let error = await course.run { _ in }
        #expect(error?.description == "the engine ended, because its loop 'faulty' ended before it was told to")
        #expect(await course.ended.sorted() == ["one", "two"])
    }

    @Test func `end with the error of the one that failed`() async {
        let course = Course()
        let error = await course.run { _ in throw Fault() }
        #expect(error?.description == "a fault; the engine has ended with its loop 'faulty'")
        #expect(await course.ended.sorted() == ["one", "two"])
    }

    @Test func `end without an error when they were told to`() async {
        let course = Course()
        let error = await course.run { $0.endAll() }
        #expect(error == nil)
        #expect(await course.ended.sorted() == ["one", "two"])
    }
}
