import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/client";
import { Toasts } from "./parts/toast";
import { router } from "./router";
import { applyTheme } from "./shell/theme";
import "./style/main.css";
import { Speaking } from "./text";

applyTheme();
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      // What was refused is not asked again; a database or an API that is away is.
      retry: (times, error) => times < 1 && error instanceof Problem && (error.away || error.status === 0),
      refetchInterval: (query) =>
        query.state.error instanceof Problem && (query.state.error.away || query.state.error.status === 0)
          ? 4_000
          : false,
      // When it is asked again is said by what is live, and by whoever acts.
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
  },
});

const place = document.getElementById("console");
if (place === null) throw new Error("the page has no place for the console");
createRoot(place).render(
  <StrictMode>
    <Speaking>
      <QueryClientProvider client={queries}>
        <Toasts>
          <RouterProvider router={router} />
        </Toasts>
      </QueryClientProvider>
    </Speaking>
  </StrictMode>,
);
