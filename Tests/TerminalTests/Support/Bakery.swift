import Terminal

/// A small program for testing the parser.
let bakery = Program(
    name: "bakery", version: "1.2.3", summary: "Bakes and sells.",
    commands: [
        .command(BakeCommand.self),
        .group(
            name: "shop", summary: "What is sold.",
            [.command(ShopListCommand.self), .command(ShopFailCommand.self), .command(ShopEmptyCommand.self)]),
    ])

enum Flour: String, ArgumentChoice {
    case rye, wheat
}

struct OvenOptions: ParameterGroup {
    @Option("How hot, in degrees.") var heat: Int = 220
}

struct BakeCommand: Command {
    static let name = "bake"
    static let users = CommandUsers.anybody
    static let summary = "Bakes loaves, one after the other or all at once, as many as there is flour for."
    static let discussion = """
        The oven is heated first.

        Loaves that do not fit wait.
        """
    static let examples = ["bake --count 3 sourdough", "bake --count 1 'corn bread' --flour rye"]

    @Positional("What to bake.") var recipe: String
    @Positional("What to add.") var extras: [String]
    @Option("How many loaves.") var count: Int
    @Option("Which flour.") var flour: Flour?
    @Option("How long each is in the oven.") var bakingTime: Duration = .seconds(2700)
    @Option("Something to leave out.", "NAME") var without: [String]
    @Flag("Bake all at once.") var together
    var oven = OvenOptions()

    func run(_ console: Console) {
        let what = "\(count) \(recipe) \(extras) \(flour?.rawValue ?? "any")"
        console.print("\(what) \(bakingTime.shown) \(without) \(together) \(oven.heat)")
    }
}

struct ShopListCommand: Command {
    static let name = "list"
    static let users = CommandUsers.anybody
    static let summary = "Lists what is there."

    func run(_ console: Console) {
        console.show(
            [("rye", 1200, 3.5), ("wheat", 7, 12.25)],
            columns: [
                Column("bread") { .text($0.0) },
                Column("in_stock") { .count($0.1) },
                Column("price") { .decimal($0.2, places: 2) },
            ])
    }
}

struct ShopFailCommand: Command {
    static let name = "close"
    static let users = CommandUsers.anybody
    static let summary = "Closes the shop."

    @Option("When.") var at: Moment?

    func run(_ console: Console) throws {
        guard at == nil else { throw UsageError("--at is for another day") }
        throw Failure("cannot close the shop:\nthere are customers in it")
    }
}

struct ShopEmptyCommand: Command {
    static let name = "empty"
    static let users = CommandUsers.anybody
    static let summary = "Throws all bread away."

    var confirmation = Confirmation()

    func run(_ console: Console) throws {
        try confirmation.ask(console, "throws 1,207 loaves away")
        console.print("thrown away")
    }
}
