import Terminal

/// Why groups of commands are for operators only.
extension CommandUsers {
    static let operatorsOfTenants = operators(
        because: "tenants, their limits and their logins belong to the installation")
    static let operatorsOfCredentials = operators(
        because: "credentials are opened with the master key, which tenants do not have")
    static let operatorsOfQueues = operators(
        because: "the pause and the rate of a queue affect all its producers; stop your own campaign with "
            + "pushq-admin campaign pause")
    static let operatorsOfChannels = operators(
        because: "requests to Apple need the tenant's credential, which only the master key opens")
    static let operatorsOfWorkers = operators(because: "workers send for all tenants")
    static let operatorsOfApps = operators(
        because: "operators create and remove the apps of tenants; list yours with pushq-admin queue list")
}
