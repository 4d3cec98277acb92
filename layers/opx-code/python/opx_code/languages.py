"""Programming languages that are parsed, with their grammars' node types of classes and functions. Data only, cheap to
import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """`name` marks the code blocks; `grammar` is the package of the grammar, "" for none.

    Of the grammar's node types, `containers` have members that get sections of their own (a class), `leaves` are
    sections (a function), and `wrappers` enclose either (its decorators). `transparent` ones are descended into.
    """

    name: str
    grammar: str = ""
    containers: frozenset[str] = frozenset()
    leaves: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    transparent: frozenset[str] = frozenset()
    function: str = "language"


def _language(name: str, package: str = "", function: str = "language", **types: str) -> Language:
    """A language with a grammar, in a package of the same name unless `package` is given. `types`: node types,
    separated by blanks."""
    sets = {kind: frozenset(names.split()) for kind, names in types.items()}
    return Language(name, f"tree_sitter_{package or name}", function=function, **sets)


_PREPROCESSOR = "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list"
_SCRIPT_LEAVES = "function_declaration generator_function_declaration method_definition"
_SCRIPT_WRAPPERS = "export_statement"
_TYPED = {
    "containers": "class_declaration abstract_class_declaration internal_module module class",
    "leaves": f"{_SCRIPT_LEAVES} interface_declaration type_alias_declaration enum_declaration function_signature",
    "wrappers": f"{_SCRIPT_WRAPPERS} ambient_declaration expression_statement",
}
_JVM_CONTAINERS = "class_declaration interface_declaration enum_declaration record_declaration"

_WITH_GRAMMAR = {
    ".py .pyi .pyw": _language(
        "python", containers="class_definition", leaves="function_definition", wrappers="decorated_definition"
    ),
    ".java": _language(
        "java",
        containers=f"{_JVM_CONTAINERS} annotation_type_declaration",
        leaves="method_declaration constructor_declaration compact_constructor_declaration",
        transparent="enum_body_declarations",
    ),
    ".kt .kts": _language(
        "kotlin",
        containers="class_declaration object_declaration companion_object",
        leaves="function_declaration secondary_constructor",
    ),
    ".js .mjs .cjs .jsx": _language(
        "javascript", containers="class_declaration class", leaves=_SCRIPT_LEAVES, wrappers=_SCRIPT_WRAPPERS
    ),
    ".ts .mts .cts": _language("typescript", function="language_typescript", **_TYPED),
    ".tsx": _language("tsx", "typescript", "language_tsx", **_TYPED),
    ".go": _language("go", leaves="function_declaration method_declaration type_declaration"),
    ".rs": _language(
        "rust",
        containers="impl_item trait_item mod_item",
        leaves="function_item struct_item enum_item union_item macro_definition function_signature_item",
    ),
    ".c .h": _language(
        "c",
        leaves="function_definition struct_specifier union_specifier enum_specifier type_definition",
        transparent=_PREPROCESSOR,
    ),
    ".cpp .cc .cxx .hpp .hh .hxx": _language(
        "cpp",
        containers="class_specifier struct_specifier namespace_definition",
        leaves="function_definition union_specifier enum_specifier type_definition concept_definition",
        wrappers="template_declaration",
        transparent=_PREPROCESSOR,
    ),
    ".cs": _language(
        "csharp",
        "c_sharp",
        containers=f"{_JVM_CONTAINERS} struct_declaration namespace_declaration",
        leaves="method_declaration constructor_declaration destructor_declaration operator_declaration "
        "delegate_declaration local_function_statement",
        wrappers="global_statement",
    ),
    ".rb .rake": _language("ruby", containers="class module singleton_class", leaves="method singleton_method"),
    ".php": _language(
        "php",
        function="language_php",
        containers="class_declaration interface_declaration trait_declaration enum_declaration",
        leaves="function_definition method_declaration",
        transparent="namespace_definition compound_statement",
    ),
    ".sh .bash .zsh": _language("bash", leaves="function_definition"),
    ".tf .tfvars .hcl": _language("hcl", leaves="block", transparent="body"),
    ".ps1 .psm1": _language(
        "powershell",
        containers="class_statement",
        leaves="function_statement class_method_definition enum_statement",
        transparent="statement_list",
    ),
}
_WITHOUT_GRAMMAR = {
    "sql": ".sql",
    "scala": ".scala .sc",
    "groovy": ".groovy .gradle",
    "lua": ".lua",
    "perl": ".pl .pm",
    "r": ".r",
    "swift": ".swift",
    "dart": ".dart",
    "elixir": ".ex .exs",
    "erlang": ".erl .hrl",
    "clojure": ".clj",
    "haskell": ".hs",
    "protobuf": ".proto",
    "graphql": ".graphql",
    "batch": ".bat .cmd",
    "css": ".css .scss .less",
    "vue": ".vue",
    "promql": ".promql",
    "rego": ".rego",
    "bicep": ".bicep",
}
LANGUAGES = {
    **{ending: language for endings, language in _WITH_GRAMMAR.items() for ending in endings.split()},
    **{ending: Language(name) for name, endings in _WITHOUT_GRAMMAR.items() for ending in endings.split()},
}
"""Languages by file extension. A language without a grammar becomes code blocks."""
