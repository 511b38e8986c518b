// Serves a page of another origin with the modules of client libraries, as an application on another host would.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const PACKAGES = ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web", "grpc-web"];

/** The directory that has the node_modules directory of this project. */
const INSTALLATION = import.meta.resolve(PACKAGES[0]).split("node_modules/")[0];

/** Serves the page and the descriptors; returns the origin. */
export async function serve(descriptors) {
  const page = `<!doctype html><script type="importmap">${JSON.stringify({ imports: imports() })}</script>`;
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://page");
    try {
      if (pathname === "/") {
        response.setHeader("content-type", "text/html").end(page);
      } else if (pathname === "/descriptors") {
        response.end(await readFile(descriptors));
      } else {
        const root = pathname.startsWith("/node_modules/") ? INSTALLATION : import.meta.url;
        response.setHeader("content-type", "text/javascript").end(await readFile(new URL(`.${pathname}`, root)));
      }
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** The import map of the packages, from their own package.json files. */
function imports() {
  return Object.fromEntries(
    PACKAGES.flatMap((name) => {
      const directory = `node_modules/${name}`;
      const { exports, module } = JSON.parse(readFileSync(new URL(`${directory}/package.json`, INSTALLATION)));
      const modules = Object.entries(exports ?? { ".": { import: `./${module}` } });
      return modules
        .filter(([, target]) => target.import !== undefined)
        .map(([path, target]) => [name + path.slice(1), `/${directory}${target.import.slice(1)}`]);
    }),
  );
}
