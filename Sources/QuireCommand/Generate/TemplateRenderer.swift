import Foundation
import Quire
import Stencil

/// Renders the files of a template. Each is parsed once.
final class TemplateRenderer {
    private let template: ClassTemplate
    private let loader: TemplateLoader
    private let tags: TemplateTags
    private let environment: Environment
    private var parsed: [String: Template] = [:]

    init(_ template: ClassTemplate) {
        self.template = template
        loader = TemplateLoader(sources: template.sources)
        tags = TemplateTags(filters: Self.filters())
        environment = Environment(
            loader: loader, extensions: tags.extensions, trimBehaviour: .smart)
        tags.boundFilters(of: environment)
    }

    /// Renders a file of the template with a context.
    ///
    /// - Returns: The text without white space around it; empty if there is no such file.
    /// - Throws: `QuireError` with code `invalidFormat`, naming file and line.
    func text(of name: String, with context: [String: Any]) throws -> String {
        guard let source = template.sources[name] else { return "" }
        loader.begin()
        tags.begin()
        do {
            let file =
                parsed[name]
                ?? Template(templateString: source, environment: environment, name: name)
            try TemplateLoader.checkTags(of: file)
            parsed[name] = file
            let text = try file.render(context)
            return text.trimmingCharacters(in: .whitespacesAndNewlines)
        } catch let error as TemplateSyntaxError {
            // The innermost first: the tags that include it are only how one got there.
            let place = error.stackTrace.first ?? error.token
            throw failure(
                error.reason, in: place?.sourceMap.filename ?? name,
                line: place.map { Int($0.sourceMap.location.lineNumber) }, underlying: error)
        } catch let error as TemplateDoesNotExist {
            throw failure("\(error)", in: name, line: nil, underlying: error)
        }
    }

    private func failure(
        _ reason: String, in name: String, line: Int?, underlying: any Error
    ) -> QuireError {
        let path =
            switch template.folder {
            case nil: "\(template.title)/\(name)"
            case "."?: name
            case let folder?: FileSystem.path(folder, name)
            }
        // What Stencil says of a file that is missing names its loader with all that it holds.
        let reason = reason.replacing(#/ in loader .*/#.dotMatchesNewlines(), with: "")
        let sentence = ".!?".contains(reason.last ?? " ") ? reason : reason + "."
        return QuireError(
            .invalidFormat,
            "The template “\(path)” cannot be used\(line.map { ", line \($0)" } ?? ""): \(sentence)",
            file: path, position: line, underlying: underlying)
    }

    /// The filters and tags that are added to Stencil's.
    private static func filters() -> Extension {
        let filters = Extension()
        func add(_ name: String, _ change: @escaping (String) -> String) {
            filters.registerFilter(name) { (value: Any?) in
                (value as? String).map(change) ?? value
            }
        }
        // As a key, which Stencil has, it is refused.
        filters.registerFilter("last") { (value: Any?) -> Any? in
            if let text = value as? String { return text.last.map(String.init) }
            return (value as? [Any])?.last
        }
        add("literal", SwiftLiteral.text)
        add("comment", SwiftLiteral.comment)
        add("upperFirst", SwiftNames.upperFirst)
        add("lowerFirst", SwiftNames.lowerFirst)
        return filters
    }
}

// MARK: - Loading

/// Gives Stencil the files of a template, and keeps those in bounds that include or extend each other: Stencil renders
/// them by recursion, and would use up the stack.
final class TemplateLoader: Loader {
    /// The maximum depth at which files include and extend each other.
    static let maximumDepth = 32
    /// The maximum number of files that are included and extended for one file of code: with a few that each include the next
    /// several times there would be no end.
    static let maximumCount = 100_000
    /// The maximum nesting of tags in one file.
    static let maximumTagDepth = 64

    private let sources: [String: String]
    private let depth = NestingDepth()
    private var count = 0
    /// The files whose tags have been checked.
    private var checked: Set<String> = []

    init(sources: [String: String]) { self.sources = sources }

    /// Begins to write another file of code.
    func begin() { count = 0 }

    func loadTemplate(name: String, environment: Environment) throws -> Template {
        guard let source = sources[name] else {
            throw TemplateDoesNotExist(templateNames: [name], loader: self)
        }
        guard depth.value < Self.maximumDepth else {
            throw TemplateSyntaxError(
                "files include or extend each other more than \(Self.maximumDepth) levels deep; perhaps “\(name)” includes itself"
            )
        }
        count += 1
        guard count <= Self.maximumCount else {
            throw TemplateSyntaxError(
                "more than \(Self.maximumCount) files are included for one generated file")
        }
        let template = NestedTemplate(templateString: source, environment: environment, name: name)
        if !checked.contains(name) {
            try Self.checkTags(of: template)
            checked.insert(name)
        }
        template.enter(depth)
        return template
    }

    /// Throws if tags are nested too deep, or one of them is what Stencil cannot be given.
    static func checkTags(of template: Template) throws {
        var depth = 0
        for token in template.tokens {
            try TemplateTagCheck.check(token)
            guard token.kind == .block else { continue }
            let words = token.components
            let name = words.first { !$0.hasSuffix(":") } ?? ""
            if name.hasPrefix("end") {
                depth -= 1
            } else if ["for", "if", "ifnot", "block", "filter"].contains(name) {
                depth += 1
            }
            if depth > maximumTagDepth {
                throw TemplateSyntaxError(
                    reason: "tags are nested more than \(maximumTagDepth) levels deep",
                    token: token)
            }
        }
    }

    /// The number of files being rendered that others include or extend.
    fileprivate final class NestingDepth { var value = 0 }

    /// A file that another one includes or extends. Stencil renders it as soon as it is loaded, and lets go of it then.
    private final class NestedTemplate: Template {
        private var depth: NestingDepth?

        func enter(_ depth: NestingDepth) {
            depth.value += 1
            self.depth = depth
        }

        deinit { depth?.value -= 1 }
    }
}

// MARK: - Generating

/// Writes the code of classes: the plan of a model's classes, through a template.
struct ClassGenerator {
    let plan: ClassPlan
    let template: ClassTemplate
    let isPublic: Bool
    /// The origin that the first line names.
    let origin: String

    /// A file of code.
    struct File {
        var name: String
        var text: String
        /// The classes in it.
        var classes: [ClassPlan.Class]
        /// Whether it has the structures of composites.
        var hasStructures = false
    }

    /// The files: one for every class and one for the model, or all in one.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if the template does not work.
    func files(inOne name: String?) throws -> [File] {
        let context = TemplateContext(plan: plan, isPublic: isPublic)
        let renderer = TemplateRenderer(template)
        var parts = try plan.classes.map { one in
            File(
                name: one.name + ".swift",
                text: try renderer.text(of: template.entityTemplate, with: context.file(of: one)),
                classes: [one])
        }
        // What is said of the whole model cannot be said by some of its classes.
        if plan.isComplete, template.sources[ClassTemplate.modelName] != nil {
            // No class has a plus sign in its name.
            parts.append(
                File(
                    name: SwiftNames.identifier(plan.modelName) + "+Classes.swift",
                    text: try renderer.text(
                        of: ClassTemplate.modelName, with: context.file(of: plan.classes)),
                    classes: []))
        }
        if !plan.structures.isEmpty, template.sources[ClassTemplate.compositesName] != nil {
            parts.append(
                File(
                    name: SwiftNames.identifier(plan.modelName) + "+Composites.swift",
                    text: try renderer.text(
                        of: ClassTemplate.compositesName, with: context.file(of: plan.classes)),
                    classes: [], hasStructures: true))
        }
        if let name {
            let text = parts.map(\.text).joined(separator: "\n\n")
            parts = [
                File(
                    name: name, text: text, classes: plan.classes,
                    hasStructures: parts.contains(where: \.hasStructures))
            ]
        }
        return try parts.map { part in
            let header = try renderer.text(
                of: ClassTemplate.headerName,
                with: context.file(of: part.classes, hasStructures: part.hasStructures))
            let rest =
                [header, part.text].filter { !$0.isEmpty }.joined(separator: "\n\n") + "\n"
            var file = part
            file.text = GeneratedFiles.line(origin: origin, rest: rest) + "\n\n" + rest
            return file
        }
    }
}
