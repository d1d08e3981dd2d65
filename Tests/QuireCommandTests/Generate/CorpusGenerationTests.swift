import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// Classes for the models of the corpus compile.
@Suite(.corpus) struct CorpusGenerationTests {
    /// Every third of the different current versions of models, which is enough of each kind; all versions of all if
    /// `QUIRE_ALL_MODELS=1` asks for them. What cannot be read is another test's business.
    private static let models: [ManagedObjectModel] = {
        let takesAll = ProcessInfo.processInfo.environment["QUIRE_ALL_MODELS"] == "1"
        let kind = takesAll ? ".xcdatamodel" : ".xcdatamodeld"
        var seen: Set<ManagedObjectModel> = []
        let models = Corpus.files { $0.hasSuffix(kind) }.compactMap { file in
            let model = try? ManagedObjectModel(contentsOf: file.path)
            return model.flatMap { seen.insert($0).inserted ? $0 : nil }
        }
        return stride(from: 0, to: models.count, by: takesAll ? 1 : 3).map { models[$0] }
    }()

    /// Writes the classes of each model into a file, within an enumeration of their own, so that one run of the
    /// compiler takes them all.
    private static func write(
        _ models: [ManagedObjectModel], template: String, to shell: CommandShell
    ) throws {
        let template = try ClassTemplate(named: template)
        for (index, model) in models.enumerated() {
            var plan = ClassPlan(model, modelName: "Model\(index)")
            // What is said of the whole model is an extension, which cannot be in an enumeration.
            try plan.keep(entities: plan.classes.map(\.entity.name))
            let text = try ClassGenerator(
                plan: plan, template: template, isPublic: index % 2 == 0, origin: "Corpus"
            ).files(inOne: "Model.swift")[0].text
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            let start = (lines.lastIndex { $0.contains(#/^(public )?import /#) } ?? 0) + 1
            let file =
                lines[..<start] + ["public enum Model\(index) {"] + lines[start...] + ["}", ""]
            try Data(file.joined(separator: "\n").utf8)
                .write(to: URL(fileURLWithPath: shell.path("Model\(index).swift")))
        }
    }

    @Test(arguments: GeneratedCodeTests.templates)
    func classesOfModelsCompile(template: String) throws {
        try #require(!Self.models.isEmpty)
        let shell = try CommandShell()
        try Self.write(Self.models, template: template, to: shell)
        let compiled = try shell.run("swiftc -typecheck \(SwiftCompiler.importing) *.swift")
        #expect(compiled.code == 0, "\(compiled.output.prefix(10000))")
    }
}
