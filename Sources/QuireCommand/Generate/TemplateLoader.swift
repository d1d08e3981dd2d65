import Stencil

/// Gives Stencil the files of a template, and keeps those in bounds that include or extend each other: Stencil renders
/// them by recursion, and would use up the stack.
final class TemplateLoader: Loader {
    /// How deep files may include and extend each other.
    static let greatestDepth = 32
    /// How many files may be included and extended to write one file of code: with a few that each include the next
    /// several times there would be no end.
    static let greatestCount = 100_000
    /// How deep tags may be nested in one file.
    static let greatestTagDepth = 64

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
        guard depth.value < Self.greatestDepth else {
            throw TemplateSyntaxError(
                "files include or extend each other more than \(Self.greatestDepth) levels deep; perhaps “\(name)” includes itself"
            )
        }
        count += 1
        guard count <= Self.greatestCount else {
            throw TemplateSyntaxError(
                "more than \(Self.greatestCount) files are included to write one file of code")
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
            if depth > greatestTagDepth {
                throw TemplateSyntaxError(
                    reason: "tags are nested more than \(greatestTagDepth) levels deep",
                    token: token)
            }
        }
    }

    /// How many files are being rendered that others include or extend.
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
