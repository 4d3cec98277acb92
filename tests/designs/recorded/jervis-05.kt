// File
nodeKey: "file::src/main/kotlin/com/jervis/Service.kt"
type: "file"
props: { path: String, extension: String, language: String, linesOfCode: Int, lastModified: Instant }

// Class
nodeKey: "class::com.jervis.service.UserService"
type: "class"
props: { name: String, qualifiedName: String, isInterface: Boolean, visibility: String, filePath: String }

// Method
nodeKey: "method::com.jervis.service.UserService.createUser"
type: "method"
props: { name: String, signature: String, returnType: String, isConstructor: Boolean, visibility: String }
