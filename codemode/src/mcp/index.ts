/** `@squash/codemode/mcp`: MCP servers as tools, and codemode as an MCP server. Apart, because it loads the MCP SDK. */
export { parseServers, readServers, type ServerConfig, type ServersConfig } from './config.ts';
export { McpServers, type ServerFailure } from './servers.ts';
export { createMcpServer, type ServeOptions, serveStdio } from './serve.ts';
export { resultText } from './result-text.ts';
