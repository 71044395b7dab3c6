import Glibc
import Testing
import Transport

@Suite(.serialized, .timeLimit(.minutes(10))) struct `Signals that a program awaits` {
    @Test func `are told from the moment on at which they are asked for`() async throws {
        for _ in 1...100 {
            let signals = Signals.stream([SIGUSR1])
            #expect(kill(getpid(), SIGUSR1) == 0)
            #expect(await signals.first { _ in true } == SIGUSR1)
        }
    }

    @Test func `are the end of a terminal, too, unless the program is to outlive it`() {
        signal(SIGHUP, SIG_IGN)
        #expect(Signals.ending == [SIGTERM, SIGINT])
        signal(SIGHUP, SIG_DFL)
        #expect(Signals.ending == [SIGTERM, SIGINT, SIGHUP])
    }

    @Test func `are told to each who asked for them, and to nobody else`() async throws {
        var (one, both) = (
            Signals.stream([SIGUSR2]).makeAsyncIterator(), Signals.stream([SIGURG, SIGUSR2]).makeAsyncIterator()
        )
        for number in [SIGURG, SIGUSR2, SIGURG] {
            #expect(kill(getpid(), number) == 0)
            #expect(await both.next() == number)
        }
        #expect(kill(getpid(), SIGUSR2) == 0)
        #expect(await both.next() == SIGUSR2)
        #expect(await one.next() == SIGUSR2)
        #expect(await one.next() == SIGUSR2)
    }
}
