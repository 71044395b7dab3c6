// Undoing a move, with both databases or with one that is lost.
extension TenantMover {
    /// Undoes a move that has not finished: the tenant is at its old place as before. Returns false if the tenant is in
    /// neither database, because it had arrived in a database that was restored to an earlier state.
    package func abandon() async throws -> Bool {
        try await checkRights()
        return try await alone { try await undoMove() }
    }

    private func undoMove() async throws -> Bool {
        let (here, there) = try await states()
        if there?.stage == .arrived, here?.stage == .detached || here?.stage == .moved {
            throw TenantMoveError.hasArrived(tenant, target.name)
        }
        guard here != nil || there != nil else { throw TenantMoveError.notUnderWay(tenant) }
        let isThere = try await isAtTarget()
        // This database was restored since the tenant arrived there.
        if there?.stage == .arrived { try await target.store.finishArriving(tenant) }
        var isHere = true
        if let here {
            if here.stage == .moved {
                guard !isThere else { throw TenantMoveError.isElsewhere(tenant, here.peer) }
                guard there != nil else {
                    throw here.peer == target.name
                        ? TenantMoveError.isNowhere(tenant, target.name, hasCopy: false)
                        : TenantMoveError.isElsewhere(tenant, here.peer)
                }
                isHere = false
            } else if isThere {
                try await source.store.abandonLeaving(tenant, suspends: true)
                try await changes.stop(patience: patience)
                throw TenantMoveError.wasInBoth(tenant, source.name, target.name)
            } else {
                // Without this check, what was copied to another database would stay there.
                if there == nil, here.peer != target.name { throw TenantMoveError.otherMove(tenant, here.peer) }
                try await goBack(here)
            }
        } else if isThere {
            throw try await errorOfUnknownMove()
        } else {
            isHere = try await isAtSource()
        }
        if there?.stage == .copying { try await target.store.abandonArriving(tenant) }
        _ = try await target.store.clearRemovedQueues(of: tenant, while: Self.always)
        return isHere
    }

    private func goBack(_ move: TenantMoveState) async throws {
        // The tenant is served again at once. From now on, another call that continues has to copy first.
        if move.stage == .detached { try await source.store.reattachTenant(tenant) }
        if move.stage == .stopping { try await source.store.continueLeaving(tenant) }
        try await changes.stop(patience: patience)
        try await source.store.abandonLeaving(tenant)
    }

    /// The error of a move that the old place does not know, while the tenant is at the new one.
    func errorOfUnknownMove() async throws -> TenantMoveError {
        try await isAtSource()
            ? .isInBoth(tenant, source.name, target.name) : .isElsewhere(tenant, target.name)
    }

    /// Whether the old place serves a tenant of this name.
    func isAtSource() async throws(PostgresError) -> Bool {
        try await source.store.tenants(named: tenant).first != nil
    }

    /// Whether the new place serves a tenant of this name. If the old one does, too, one of them was restored.
    func isAtTarget() async throws(PostgresError) -> Bool {
        try await target.store.tenants(named: tenant).first != nil
    }

    /// Ends a move without the other database, which is neither read nor changed.
    ///
    /// If the tenant leaves, it comes back. Before it is detached, it cannot have arrived. After that it may have
    /// arrived: the caller asserts that the other database is lost. If the tenant was moving here, it stays if it has
    /// arrived. Otherwise it was in the other database alone, and what was copied is given up.
    /// - Returns: whether the tenant is here.
    package static func abandon(_ tenant: String, at source: Place, patience: Duration) async throws -> Bool {
        let mover = TenantMover(tenant, from: source, to: source, patience: patience)
        try await mover.checkRights()
        return try await mover.alone {
            guard let move = try await source.store.tenantMove(of: tenant) else {
                throw TenantMoveError.notUnderWay(tenant)
            }
            guard move.stage != .moved else { throw TenantMoveError.isElsewhere(tenant, move.peer) }
            if move.leaves {
                try await mover.goBack(move)
            } else if move.stage == .arrived {
                try await source.store.finishArriving(tenant)
            } else {
                try await source.store.abandonArriving(tenant)
                _ = try await source.store.clearRemovedQueues(of: tenant, while: Self.always)
                return false
            }
            return true
        }
    }
}
