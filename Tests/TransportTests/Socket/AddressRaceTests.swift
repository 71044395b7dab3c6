import Glibc
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct `Of the addresses of a name` {
    @Test func `one that swallows everything costs a moment`() async throws {
        let (hole, port) = (try BlackHole(), try TestPort())
        let time = try await race([hole.address, port.address])
        #expect(time >= AddressRace.headStart)
        // Divided between two addresses, the time would be five minutes.
        #expect(time < .seconds(60))
    }

    @Test func `several that swallow everything cost a moment each`() async throws {
        let (holes, port) = (try [BlackHole(), BlackHole()], try TestPort())
        let time = try await race(holes.map(\.address) + [port.address])
        #expect(time >= AddressRace.headStart * 2)
        // Divided among three addresses, the time would be three minutes for each of the first two.
        #expect(time < .seconds(60))
    }

    @Test func `one that refuses does not make the next one wait`() async throws {
        let (refusing, port) = (try TestPort(), try TestPort())
        refusing.close()
        let (loop, addresses) = (EventLoop(name: "test"), [refusing.address, port.address])
        defer { loop.shutDown() }
        let hasMore = try await loop.run { _ in
            let race = AddressRace(addresses, peer: "test", loop: loop)
            _ = try await race.firstConnected(until: .now + .seconds(30))
            return race.hasMore
        }
        // With a head start, the second address would also have been tried. None is left, so the failure of the first
        // address started the second.
        #expect(!hasMore)
    }

    @Test func `the others are there when the first is of no use, and then none is`() async throws {
        let ports = try [TestPort(), TestPort()]
        let (loop, addresses) = (EventLoop(name: "test"), ports.map(\.address))
        defer { loop.shutDown() }
        let hasMore = try await loop.run { _ in
            let race = AddressRace(addresses, peer: "test", loop: loop)
            _ = try await race.firstConnected(until: .now + .seconds(30))
            let hasMore = race.hasMore
            _ = try await race.firstConnected(until: .now + .seconds(30))
            return (hasMore, race.hasMore)
        }
        #expect(hasMore == (true, false))
    }

    @Test(.withIPv6Loopback)
    func `those of the family that was of no use come last, and come where the other swallows all`() async throws {
        let (ports, hole) = (try [TestPort(host: "::1"), TestPort(host: "::1")], try BlackHole())
        let other = try TestPort()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        for (last, expected) in [(other.address, other.address), (hole.address, ports[1].address)] {
            let addresses = ports.map(\.address) + [last]
            let second = try await loop.run { _ in
                let race = AddressRace(addresses, peer: "test", loop: loop)
                _ = try await race.firstConnected(until: .now + .seconds(30))
                race.putFamilyLast()
                _ = try await race.firstConnected(until: .now + .seconds(30))
                return race.connectedAddress
            }
            #expect(second == expected)
        }
    }

    @Test func `that all refuse the last one's reason is told, of one that is silent the time`() async throws {
        let hole = try BlackHole()
        let refusing = try TestPort()
        refusing.close()
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        for (address, expected) in [
            (refusing.address, TransportError.unreachable(peer: "test", reason: "Connection refused")),
            (hole.address, .timedOut(peer: "test", during: .connecting)),
        ] {
            await #expect(throws: expected) {
                try await loop.run { _ throws(TransportError) in
                    let race = AddressRace([address, address], peer: "test", loop: loop)
                    _ = try await race.firstConnected(until: .now + .milliseconds(600))
                }
            }
        }
    }

    /// Returns the time until one of the addresses has a connection.
    private func race(_ addresses: [SocketAddress]) async throws -> Duration {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await ContinuousClock().measure {
            try await loop.run { _ throws(TransportError) in
                let race = AddressRace(addresses, peer: "test", loop: loop)
                _ = try await race.firstConnected(until: .now + .seconds(600))
            }
        }
    }
}

/// A port at which the kernel accepts connections, and no program does.
private final class TestPort {
    let address: SocketAddress
    private let listener: Socket

    init(host: String = "127.0.0.1", backlog: CInt = 8) throws {
        let anyPort = try SocketAddress.lookUp(host: host, port: 0, isNumeric: true)[0]
        listener = try Socket(family: anyPort.family)
        let descriptor = listener.descriptor
        let bound = unsafe anyPort.withKernelForm { unsafe bind(descriptor, $0, $1) }
        try #require(bound == 0 && listen(descriptor, backlog) == 0)
        address = try SocketAddress.lookUp(host: host, port: listener.localPort, isNumeric: true)[0]
    }

    func close() { shutdown(listener.descriptor, CInt(SHUT_RDWR)) }
}

/// An address that never responds: a port whose queue is full, so that the kernel drops what arrives (tcp(7)).
private final class BlackHole {
    var address: SocketAddress { port.address }
    private let port: TestPort
    private var waiting: [Socket] = []

    init() throws {
        port = try TestPort(host: "127.0.0.2", backlog: 0)
        for _ in 0..<4 {
            let socket = try Socket(family: CInt(AF_INET))
            try socket.beginConnecting(to: port.address)
            waiting.append(socket)
        }
    }
}
