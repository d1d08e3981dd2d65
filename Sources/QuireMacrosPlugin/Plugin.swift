internal import QuireMacroExpansion
internal import SwiftSyntaxMacros

// The compiler asks for macros by module and type, so this module has a type for each.
final class EntityMacro: EntityExpansion {}
final class AttributeMacro: AttributeExpansion {}
final class RelationshipMacro: RelationshipExpansion {}
final class FetchedPropertyMacro: FetchedPropertyExpansion {}
final class CompositeMacro: CompositeExpansion {}

#if TOOLCHAIN_SYNTAX
    @_spi(PluginMessage) internal import SwiftCompilerPluginMessageHandling

    /// The work of `CompilerPlugin` of swift-syntax, the only part of it that the toolchain lacks.
    @main
    struct QuireMacrosPlugin: PluginProvider {
        static func main() throws {
            let connection = try StandardIOMessageConnection()
            try CompilerPluginMessageListener(connection: connection, provider: Self()).main()
        }

        func resolveMacro(moduleName: String, typeName: String) throws -> any Macro.Type {
            switch typeName {
            case "EntityMacro": EntityMacro.self
            case "AttributeMacro": AttributeMacro.self
            case "RelationshipMacro": RelationshipMacro.self
            case "FetchedPropertyMacro": FetchedPropertyMacro.self
            case "CompositeMacro": CompositeMacro.self
            default: throw NoMacro(name: typeName)
            }
        }

        func loadPluginLibrary(libraryPath: String, moduleName: String) throws {}

        var features: [PluginFeature] { [] }

        private struct NoMacro: Error, CustomStringConvertible {
            let name: String
            var description: String { "QuireMacrosPlugin has no macro “\(name)”." }
        }
    }
#else
    internal import SwiftCompilerPlugin

    @main
    struct QuireMacrosPlugin: CompilerPlugin {
        let providingMacros: [any Macro.Type] = [
            EntityMacro.self, AttributeMacro.self, RelationshipMacro.self,
            FetchedPropertyMacro.self, CompositeMacro.self,
        ]
    }
#endif
