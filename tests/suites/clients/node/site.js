// Serves a page of another origin with the modules of client libraries, as an application on another host would.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const PACKAGES = ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web", "grpc-web"];

/** The path of the interceptor's modules, and their directory. */
const INTERCEPTOR = "/tonic-idempotency-client/";
const BUILT = new URL("../../../../clients/typescript/dist/", import.meta.url);

/** The directory that has the node_modules directory of this project. */
const INSTALLATION = import.meta.resolve(PACKAGES[0]).split("node_modules/")[0];

/** Serves the page and the descriptors; returns the origin. */
export async function serve(descriptors) {
  const page = pageWith("");
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://page");
    try {
      if (pathname === "/") {
        response.setHeader("content-type", "text/html").end(page);
      } else if (pathname === "/descriptors") {
        response.end(await readFile(descriptors));
      } else {
        response.setHeader("content-type", "text/javascript").end(await readModule(pathname));
      }
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** A page with an import map of the packages, and this markup. */
export function pageWith(markup) {
  return `<!doctype html><script type="importmap">${JSON.stringify({ imports: imports() })}</script>${markup}`;
}

/** Reads a module of a package, or one beside this one. */
export function readModule(pathname) {
  const root = pathname.startsWith("/node_modules/") ? INSTALLATION : import.meta.url;
  return readFile(
    pathname.startsWith(INTERCEPTOR) ? new URL(pathname.slice(INTERCEPTOR.length), BUILT) : new URL(`.${pathname}`, root),
  );
}

/** The import map of the packages, from their own package.json files. */
function imports() {
  const packages = Object.fromEntries(
    PACKAGES.flatMap((name) => {
      const directory = `node_modules/${name}`;
      const { exports, module } = JSON.parse(readFileSync(new URL(`${directory}/package.json`, INSTALLATION)));
      const modules = Object.entries(exports ?? { ".": { import: `./${module}` } });
      return modules
        .filter(([, target]) => target.import !== undefined)
        .map(([path, target]) => [name + path.slice(1), `/${directory}${target.import.slice(1)}`]);
    }),
  );
  return { ...packages, "tonic-idempotency-client": `${INTERCEPTOR}index.js` };
}
