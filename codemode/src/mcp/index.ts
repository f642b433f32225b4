/** `@squash/codemode/mcp`: MCP servers as tools, and codemode as an MCP server. Apart, because it loads the MCP SDK. */
import '../node-version.ts';
export { parseServers, readServers, type ServerConfig, type ServersConfig } from './config.ts';
export { McpServers, type ServerFailure } from './servers.ts';
export { mcpServerFactory, type ServeOptions, serveStdio } from './serve.ts';
export type { HttpService } from './loopback-http.ts';
export { type HttpServeOptions, serveHttp } from './serve-http.ts';
export { idleGlobs } from '../host/policy.ts';
export { resultText } from './result-text.ts';
