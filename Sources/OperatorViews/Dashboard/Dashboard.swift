import FoundationEssentials
import HTTP1
package import PostgresStore
import QueueCore
import Terminal
package import Transport

/// The operators' page: serves its files, answers its questions, and carries out its orders.
///
/// It belongs to an event loop.
package final class Dashboard {
    /// The maximum number of bytes in a request's body.
    private static let maximumBody = 16 * 1024
    /// How long a statement of an order is repeated while the tenant has reached its limit of calls a second. An order
    /// is several statements, and the browser waits 30 seconds for its end (`ServerLimits.answerTime`).
    private static let callPatience = Duration.seconds(2)

    private let loop: EventLoop
    /// One connection reads for all operators. Changes use another one, so that the audit can name the operator.
    private let reading: ReconnectingConnection
    private let changing: ReconnectingConnection
    private let isOperator: Bool
    private let login: String
    private var access: DashboardAccess
    private var answers = SharedAnswers<(Response) -> Void>()
    private var server: Server?
    private var orders = WaitingOrders<Order>()
    private var isChanging = false

    private struct Order {
        let carryOut: () async -> Void
        let refuse: (DashboardError) -> Void
    }

    /// - Parameters:
    ///   - login: the login of the database, which the page shows.
    ///   - isOperator: whether the login may see workers and credentials.
    package init(
        reading: ReconnectingConnection, changing: ReconnectingConnection, on loop: EventLoop, login: String,
        isOperator: Bool,
        access: DashboardAccess
    ) {
        self.reading = reading
        self.changing = changing
        self.loop = loop
        self.login = login
        self.isOperator = isOperator
        self.access = access
    }

    /// Starts the server. Returns its address, with the port that the system chose if the given one is 0.
    package func start(at address: ListenAddress) throws(TransportError) -> ListenAddress {
        var limits = ServerLimits()
        limits.bodyBytes = Self.maximumBody
        let server = try Server(at: address, loop: loop, limits: limits) { [unowned self] request, reply in
            answer(request) { reply($0.withPageFields()) }
        }
        self.server = server
        // Asks once in advance, so that the first operator need not wait for plans, nor for PostgreSQL to read a large
        // installation.
        loop.startTask { [self] in _ = await ask("/api/overview", DashboardRequest(query: "")) }
        return server.address ?? address
    }

    /// Closes all connections.
    package func stop() {
        server?.close()
        server = nil
    }

    // MARK: Requests

    private func answer(_ request: Request, _ reply: @escaping (Response) -> Void) {
        do {
            try access.checkOrigin(of: request.head)
            try route(request, reply)
        } catch let error as DashboardError {
            reply(Response(error))
        } catch {
            reply(Response(DashboardError(status: 500, text: "\(error)")))
        }
    }

    private func route(_ request: Request, _ reply: @escaping (Response) -> Void) throws {
        let path = request.head.path
        // The server leaves out the body of an answer to HEAD (RFC 9110 §9.3.2).
        let method = request.head.method == "HEAD" ? "GET" : request.head.method
        switch (method, path) {
        case ("POST", "/api/sign-in"): return reply(try signIn(DashboardRequest(request), request.head))
        case ("POST", "/api/sign-out"):
            access.signOut(request.head)
            return reply(Response(["signed_in": false], cookie: DashboardAccess.setCookie(nil, for: request.head)))
        case ("GET", "/api/me"):
            return reply(Response(me(access.session(of: request.head, now: .now))))
        case ("POST", "/api/order"):
            let session = try requireRight(.change, of: request)
            return carryOut(try DashboardRequest(request), for: session, reply)
        case ("GET", _) where DashboardQuestions.shared.contains(path):
            _ = try requireRight(.read, of: request)
            return share(path, request, reply)
        case ("POST", _) where DashboardQuestions.unshared.contains(path):
            _ = try requireRight(.read, of: request)
            let parsed = try DashboardRequest(request)
            loop.startTask { [self] in reply(await ask(path, parsed)) }
        case ("GET", _):
            guard let file = DashboardFiles.response(for: path) else {
                throw DashboardError(status: 404, text: "there is nothing at \(path)")
            }
            reply(file)
        default:
            // RFC 9110 §15.5.6 requires the `allow` field.
            let error = JSON.string("this path does not take \(method)")
            reply(Response(["error": error], status: 405, allow: "GET, HEAD"))
        }
    }

    private func requireRight(
        _ right: DashboardAccess.Right, of request: Request
    ) throws(DashboardError) -> DashboardAccess.Session {
        guard let session = access.session(of: request.head, now: .now) else {
            throw .init(status: 401, text: "sign in with a token of the dashboard")
        }
        guard session.right >= right else {
            throw .init(status: 403, text: "the token that you signed in with may only read")
        }
        return session
    }

    private func signIn(_ request: DashboardRequest, _ head: RequestHead) throws -> Response {
        let name = String((request.name ?? "").printable(upTo: 40))
        let (session, secret) = try access.signIn(token: request.token ?? "", name: name, now: .now)
        return Response(me(session), cookie: DashboardAccess.setCookie(secret, for: head))
    }

    private func me(_ session: DashboardAccess.Session?) -> JSON {
        .object([
            ("signed_in", .bool(session != nil)), ("may_change", .bool(session?.right == .change)),
            ("name", .string(session?.name ?? "")), ("login", session == nil ? .null : .string(login)),
            ("is_operator", .bool(session != nil && isOperator)), ("version", .string(Version.current)),
        ])
    }

    // MARK: The database

    private func share(_ path: String, _ request: Request, _ reply: @escaping (Response) -> Void) {
        let question = "\(path)?\(request.head.query ?? "")"
        switch answers.begin(question, reply, now: loop.now) {
        case .answer(let response): reply(response)
        case .wait: break
        case .refuse:
            reply(Response(DashboardError(status: 503, text: "too many requests at once; try again")))
        case .ask(let number):
            loop.startTask { [self] in
                let response: Response
                do throws(DashboardError) {
                    let parsed = try DashboardRequest(request)
                    response = await ask(path, parsed)
                } catch {
                    response = Response(error)
                }
                for waiter in answers.finish(question, number, with: response, now: loop.now) { waiter(response) }
            }
        }
    }

    private func ask(_ path: String, _ request: DashboardRequest) async -> Response {
        let isOperator = isOperator
        return await attempt(on: reading) {
            Response(try await DashboardQuestions.answer(path, request, isOperator: isOperator, $0))
        }
    }

    /// Carries out changes one after the other: the audit takes the program's name from the connection, and each change
    /// sets it to the name of the operator who has signed in.
    private func carryOut(
        _ request: DashboardRequest, for session: DashboardAccess.Session, _ reply: @escaping (Response) -> Void
    ) {
        let program = session.name.isEmpty ? "pushq-admin dashboard" : "dashboard: \(session.name)"
        let order = Order(
            carryOut: { [self] in
                let response = await attempt(on: changing) { store in
                    var terms = StatementTerms(program: program)
                    terms.callPatience = Self.callPatience
                    store.terms = terms
                    return Response(["done": .string(try await DashboardOrders.carryOut(request, store))])
                }
                answers.forgetAll()
                reply(response)
            },
            refuse: { reply(Response($0)) })
        guard orders.add(order, now: loop.now) else {
            return order.refuse(.init(status: 503, text: "too many orders wait; nothing was changed; try again"))
        }
        guard !isChanging else { return }
        isChanging = true
        loop.startTask { [self] in
            await carryOutWaiting()
            isChanging = false
        }
    }

    private func carryOutWaiting() async {
        while let turn = orders.next(now: loop.now) {
            switch turn {
            case .carryOut(let order): await order.carryOut()
            case .giveUp(let order):
                order.refuse(.init(status: 503, text: "other orders took too long; nothing was changed; try again"))
            }
        }
    }

    private func attempt(
        on store: ReconnectingConnection, _ body: (PostgresConnection) async throws -> Response
    ) async -> Response {
        do {
            return try await body(store.current(within: .seconds(5)))
        } catch let error as DashboardError {
            return Response(error)
        } catch PostgresError.server(let error) where DatabaseOptions.ownRefusals.contains(error.state) {
            return Response(
                DashboardError(status: 409, text: error.message + (error.hint.map { "; \($0)" } ?? "")))
        } catch let error as PostgresError where error.isNotAllowed {
            return Response(
                DashboardError(status: 403, text: "the login \(login) may not do this in the database"))
        } catch let error as PostgresError where !error.isTransient {
            return Response(DashboardError(status: 409, text: "\(error)"))
        } catch {
            return Response(DashboardError(status: 503, text: "\(error)"))
        }
    }
}

extension Response {
    /// An answer in JSON.
    fileprivate init(_ json: JSON, status: Int = 200, cookie: String? = nil, allow: String? = nil) {
        let fields = [("set-cookie", cookie), ("allow", allow)]
        self.init(
            status: status, contentType: "application/json; charset=utf-8", body: Array(json.text.utf8),
            fields: fields.compactMap { name, value in value.map { .init(name: name, value: $0) } })
    }

    fileprivate init(_ error: DashboardError) {
        self.init(["error": .string(error.text)], status: error.status)
    }

    /// The same response with fields that forbid a browser to do anything but show the page.
    fileprivate func withPageFields() -> Response {
        Response(
            status: status, contentType: contentType, body: body,
            fields: fields + DashboardFiles.pageFields.map { .init(name: $0, value: $1) })
    }
}
