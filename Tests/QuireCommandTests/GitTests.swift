import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireCommand

/// The settings of `GIT.md`, in a repository.
@Suite struct GitTests {
    let shell: CommandShell

    init() throws {
        shell = try CommandShell()
        _ = try shell.output("mkdir repository && \(Self.git) init -q .")
    }

    private static let git =
        "git -C repository -c user.name=T -c user.email=t@example.org -c commit.gpgsign=false -c init.defaultBranch=main"

    /// The settings of one of the page's sections, as they are typed.
    private func configure(_ section: String) throws {
        let page = try String(
            contentsOfFile: Checkout.path + "/Sources/QuireCommand/GIT.md", encoding: .utf8)
        let start = try #require(page.range(of: "## \(section)\n")).upperBound
        let code = page[start...].components(separatedBy: "```sh\n")[1].components(
            separatedBy: "```")[0]
        _ = try shell.output("cd repository\n" + code)
    }

    private func commit(_ commands: String) throws {
        _ = try shell.output(
            "(cd repository && \(commands)) && \(Self.git) add -A && \(Self.git) commit -qm Change")
    }

    @Test func differencesAreThoseOfTheObjects() throws {
        try configure("Differences")
        try commit("quire new ../L.quire --template Library && quire export ../L.quire L.quirez")
        try commit(
            "quire set ../L.quire Friend/p1 name=Ann && quire export ../L.quire L.quirez --replace")
        let lines = try shell.output("\(Self.git) log -p -1 -- L.quirez").split(separator: "\n")
        let removed = lines.filter { $0.hasPrefix("-") && !$0.hasPrefix("---") }
        let added = lines.filter { $0.hasPrefix("+") && !$0.hasPrefix("+++") }
        #expect(removed.count == 1 && removed[0].contains(#""name": "Ada""#))
        #expect(added.count == 1 && added[0].contains(#""name": "Ann""#))
    }

    private static let model = "M.xcdatamodel/contents"

    /// A repository with a model and a branch `other`, in each of which a script has changed the model.
    private func merge(ours: String, theirs: String) throws -> CommandShell.Result {
        try configure("Merging models")
        try commit(
            "cp -r $ROOT/Sources/QuireDocuments/Resources/Templates/Library/Model.xcdatamodeld/Model.xcdatamodel M.xcdatamodel"
        )
        _ = try shell.output("\(Self.git) checkout -qb other")
        try commit("sed -i '\(theirs)' \(Self.model)")
        _ = try shell.output("\(Self.git) checkout -q main")
        try commit("sed -i '\(ours)' \(Self.model)")
        return try shell.run("\(Self.git) merge -q --no-edit other")
    }

    private func adding(_ name: String, to entity: String) -> String {
        #"/<entity name="\#(entity)"/a <attribute name="\#(name)" optional="YES" attributeType="String"/>"#
    }

    /// In the same place of the text, where git alone sees a conflict.
    @Test func propertiesOfBothSidesAreMerged() throws {
        let result = try merge(
            ours: adding("mine", to: "Book"), theirs: adding("yours", to: "Book"))
        #expect(result.code == 0, "\(result.output)")
        let model = try shell.output("quire model print repository/M.xcdatamodel Book")
        #expect(model.contains("mine") && model.contains("yours") && model.contains("title"))
    }

    @Test func removedPropertiesStayRemoved() throws {
        let result = try merge(
            ours: adding("mine", to: "Book"), theirs: #"/<attribute name="subtitle"/d"#)
        #expect(result.code == 0, "\(result.output)")
        let model = try shell.output("quire model print repository/M.xcdatamodel Book")
        #expect(model.contains("mine") && !model.contains("subtitle"))
    }

    @Test func differentChangesOfOnePartAreAConflict() throws {
        let change = { (type: String) in
            #"/<attribute name="subtitle"/s/attributeType="[^"]*"/attributeType="\#(type)"/"#
        }
        let result = try merge(ours: change("Date"), theirs: change("Boolean"))
        #expect(result.code != 0)
        #expect(result.output.contains("quire: Both sides have changed Book.subtitle.\n"))
        #expect(try shell.output("cat repository/\(Self.model)").contains(#"attributeType="Date""#))
        #expect(try shell.output("\(Self.git) status --short").contains("UU \(Self.model)"))
    }
}
