import Cryptography

// What is checked before anything is written.
extension TenantMover {
    func checkRights() async throws {
        for place in [source, target] {
            guard let (may, login, owner, isDirect) = try await place.store.mayMove() else {
                throw TenantMoveError.noSchema(place.name)
            }
            // The lock of a move belongs to a session (functions/mover.sql).
            guard isDirect else { throw TenantMoveError.behindPooler(place.name) }
            guard may else { throw TenantMoveError.noRights(place.name, login: login, owner: owner) }
        }
    }

    func compareDatabases() async throws {
        let (here, there) = (try await source.store.databaseTraits(), try await target.store.databaseTraits())
        guard here.lineage != there.lineage else { throw TenantMoveError.sameDatabase(source.name) }
        guard here.number != there.number else { throw TenantMoveError.sameNumber(Int(here.number)) }
        guard here.schema == there.schema else { throw TenantMoveError.otherSchema }
        guard here.textOrder == there.textOrder else {
            throw TenantMoveError.otherTextOrder(here.textOrder, there.textOrder)
        }
    }

    /// Checks that these keys open the secrets that move, and that workers at the new place can open what the keys
    /// seal.
    func checkKeys(_ keys: MasterKeys) async throws {
        for secret in try await source.store.sealedSecrets(of: tenant) {
            do throws(SealError) {
                var opened = try keys.open(secret.sealed, of: secret.owner)
                SecretBytes.wipe(&opened)
            } catch {
                throw TenantMoveError.sealed(secret.name, error)
            }
        }
        let used = try await target.store.secretsByKey()
        guard used.isEmpty || used.contains(where: { $0.name == keys.first.name }) else {
            throw TenantMoveError.unknownKey("\(keys.first.name)", used: used.map { "\($0.name)" })
        }
    }
}
