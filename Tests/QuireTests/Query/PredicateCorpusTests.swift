import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// The predicates in models that Xcode made.
@Suite(.corpus) struct PredicateCorpusTests {
    @Test func everyPredicateIsReadAndMakesSense() throws {
        let files = Corpus.files { $0.hasSuffix("/contents") }
        try #require(!files.isEmpty)
        var count = 0
        var misspelt: [String] = []
        for file in files {
            let model = try ManagedObjectModel(contentsOf: file.path)
            let layout = try model.layout()
            func check(_ format: String, of entity: String) throws {
                count += 1
                let template = try QueryPredicate(format: format)
                #expect(try QueryPredicate(format: template.format) == template)
                // What a variable stands for may be missing.
                let predicate = template.mappingExpressions {
                    $0.replacingVariables { _ in .constant(.null) }
                }
                let store = StoreIdentity(uuid: "", entityNames: layout.entities.map(\.name))
                do {
                    _ = try ResolvedQuery(
                        FetchSpecification(entity, predicate: predicate), in: layout, store: store)
                } catch let error as QuireError where error.code == .unknownKey {
                    misspelt.append(format)
                }
            }
            for template in model.fetchRequestTemplates {
                try template.predicateFormat.map { try check($0, of: template.entityName) }
            }
            for entity in model.entities {
                for case .fetched(let property) in entity.properties {
                    let request = property.fetchRequest
                    try request.predicateFormat.map { try check($0, of: request.entityName) }
                }
                for index in entity.indexes {
                    try index.partialIndexPredicate.map { try check($0, of: entity.name) }
                    for expression in index.elements.compactMap(\.expression) {
                        try checkExpression(expression)
                    }
                }
                for attribute in entity.attributes {
                    try attribute.derivationExpression.map { try checkExpression($0) }
                }
            }
        }
        #expect(count >= 5)
        // The entity of that model has a lastname.
        #expect(misspelt == ["lastName LIKE \"Duck*\""])
    }

    private func checkExpression(_ format: String) throws {
        let expression = try QueryExpression(format: format)
        #expect(try QueryExpression(format: expression.description) == expression)
    }
}
