import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Built into the package, which serves it at /ops. While developing, `npm run dev` asks an API that
// `holdfast api --no-auth` serves on its usual port.
export default defineConfig({
  base: "/ops/",
  plugins: [react(), tailwindcss()],
  build: {
    outDir: "../src/holdfast/http/pages",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // The notices that the licences of bundled packages ask for; they go into the wheel with the pages.
    license: { fileName: "third-party-licenses.md" },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8410" } },
});
